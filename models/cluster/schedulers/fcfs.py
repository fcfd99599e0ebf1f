"""First come, first served: a job that does not fit holds up all behind it."""

from models.cluster.schedulers.scheduler import Scheduler


class Fcfs(Scheduler):
    """strict = false: whoever fits goes past those that do not."""

    options = {"strict": True}
    strict: bool

    def decide(self) -> None:
        """In the order of submission."""
        if self.strict:
            self.start_in_order()
        else:
            self.start_what_fits()
