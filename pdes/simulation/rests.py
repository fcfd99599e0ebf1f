"""What is done at a round's end at which all ranks rest: checkpoints, LPs that move, ranks that join or fall asleep."""

from pdes.engine.round import ASKS
from pdes.simulation.balance import Balancer
from pdes.simulation.checkpoints.take import Checkpoints
from pdes.simulation.job import Run
from pdes.simulation.spreading import Spreading


class Rests:
    """One rank's part: `tick` now and then, `rest` at the end of a round that all ranks with LPs have."""

    def __init__(
        self, job: Run, checkpoints: Checkpoints, balancer: Balancer | None, spreading: Spreading | None
    ) -> None:  # fmt: skip
        self._job, self._checkpoints, self._balancer, self._spreading = job, checkpoints, balancer, spreading
        self._asked = (False, False, False)  # this rank, for a checkpoint; for a look at the balance; at its ranks
        self.has_moved = True  # the model is another than rounds last ran with; whoever runs them takes this back

    def begin(self) -> None:
        """This rank goes on with LPs that it has got from another one."""
        for each in (self._balancer, self._spreading):
            if each is not None:
                each.begin()

    def tick(self) -> None:
        """Ask for a rest if there is something to do."""
        self._checkpoints.tick()
        wants_look = self._balancer is not None and self._job.world.size > 1 and self._balancer.is_due
        wants_change = self._spreading is not None and self._spreading.tick()
        self._asked = (bool(self._job.loop[ASKS]), wants_look, wants_change)
        self._job.loop[ASKS] = any(self._asked)

    def rest(self) -> bool:
        """Do what any rank has asked for; whether rounds go on with the same model."""
        asked, self._asked = self._job.world.allgather(self._asked), (False, False, False)
        if any(checkpoint for checkpoint, _, _ in asked) and not self._checkpoints.rest():
            return False
        if self._spreading is not None and any(change for _, _, change in asked):
            self.has_moved = self._spreading.rest()
            if self.has_moved:
                self.begin()
        if self._balancer is not None and any(look for _, look, _ in asked) and not self.has_moved:
            self.has_moved = self._balancer.rest()
        return not self.has_moved
