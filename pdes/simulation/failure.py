"""What the machine has refused a run, memory or disk, in one message; and how to go on."""

import resource
from pathlib import Path

from pdes.errors import MachineError, SimError
from pdes.simulation.memory import free_bytes
from pdes.units import format_size


def how_to_go_on(checkpoints: Path) -> str:
    """A sentence. checkpoints: where the run's are, if it has any."""
    if any(checkpoints.glob("checkpoint-*")):
        return f"Go on with: pdes-sim --resume {checkpoints}"
    return "There is no checkpoint to go on from; [checkpoint] every takes some"


def explained(error: BaseException, checkpoints: Path | None = None) -> SimError | None:
    """The error as one that says what is short, None if it is of another kind.

    checkpoints: where the run's are, None: it has not begun.
    """
    hint = "" if checkpoints is None else f". {how_to_go_on(checkpoints)}"
    if isinstance(error, MemoryError):
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        what = str(error).strip().rstrip(".") or "an array could not be made"
        sizes = f"this process has had up to {format_size(used)}, and {format_size(free_bytes())} are free"
        return MachineError(f"out of memory: {what}; {sizes}. Fewer ranks on this machine take less{hint}")
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return MachineError(f"{place}{error.strerror or error}. The results are not complete and not in place{hint}")
    if isinstance(error, SimError) and isinstance(error.__cause__, OSError) and hint:
        return MachineError(f"{error}{hint}")
    return None
