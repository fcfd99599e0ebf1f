"""What is done at a round's end at which all ranks rest: checkpoints, and LPs that move."""

from pdes.engine.round import ASKS
from pdes.simulation.balance import Balancer
from pdes.simulation.checkpoints.take import Checkpoints
from pdes.simulation.job import Run


class Rests:
    """One rank's part: `tick` now and then, `rest` at the end of a round that all ranks have."""

    def __init__(self, job: Run, checkpoints: Checkpoints, balancer: Balancer | None) -> None:
        self._job, self._checkpoints, self._balancer = job, checkpoints, balancer
        self._asked = (False, False)  # this rank, for a checkpoint; for a look at the balance
        self.has_moved = True  # the model is another than rounds last ran with; whoever runs them takes this back

    def tick(self) -> None:
        """Ask for a rest if there is something to do."""
        self._checkpoints.tick()
        wants_look = self._balancer is not None and self._balancer.is_due
        self._asked = (bool(self._job.loop[ASKS]), wants_look)
        self._job.loop[ASKS] = any(self._asked)

    def rest(self) -> bool:
        """Do what any rank has asked for; whether rounds go on with the same model."""
        asked, self._asked = self._job.world.allgather(self._asked), (False, False)
        if any(checkpoint for checkpoint, _ in asked) and not self._checkpoints.rest():
            return False
        if self._balancer is not None and any(look for _, look in asked):
            self.has_moved = self._balancer.rest()
        return not self.has_moved
