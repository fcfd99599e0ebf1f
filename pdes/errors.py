"""Every error the simulator raises on purpose. One root, `SimError`, so that callers can catch all of them.

The text of an error says what was found, where, what is accepted and what to change; `pdes.cli` prints it without
a traceback.
"""


class SimError(Exception):
    """Root of all errors that the simulator raises on purpose."""

    exit_status = 1


class ConfigError(SimError):
    """Bad input from a user: a config, topology or flow file. Exit status 2 (design R10).

    where: file, and key or line. found: the offending value. accepted: what would have been right.
    """

    exit_status = 2

    def __init__(self, where: str, found: str, accepted: str = "") -> None:
        self.where, self.found, self.accepted = where, found, accepted
        text = f"{where}: {found}"
        if accepted and not accepted[0].isupper():
            accepted = f"Accepted: {accepted}"
        super().__init__(f"{text}. {accepted}" if accepted else text)


class PartitionError(SimError):
    """A topology that cannot be cut into logical processes as asked."""


class LookaheadError(SimError):
    """A message between logical processes that would arrive before the lookahead allows."""


class CapacityError(SimError):
    """A fixed-size buffer was too small and could not be grown."""


class CausalityError(SimError):
    """An event would have run before one that it depends on: an error of the simulator itself."""


class MachineError(SimError):
    """The machine has refused something that the run needs: memory, or a disk."""
