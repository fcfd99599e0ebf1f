"""Schedulers by name, and a user's own out of a Python file."""

from collections.abc import Callable
from pathlib import Path

from models.cluster.schedulers.backfill import Backfill
from models.cluster.schedulers.fcfs import Fcfs
from models.cluster.schedulers.gang import Gang
from models.cluster.schedulers.las import Las
from models.cluster.schedulers.mast import Mast
from models.cluster.schedulers.priority import Priority
from models.cluster.schedulers.quota import Quota
from models.cluster.schedulers.rounds.allox import Allox
from models.cluster.schedulers.rounds.fifo import FifoPerf, FifoRounds
from models.cluster.schedulers.rounds.finish_time import FinishTimeFair
from models.cluster.schedulers.rounds.max_min import MaxMin, MaxMinPerf
from models.cluster.schedulers.rounds.pollux import Pollux
from models.cluster.schedulers.rounds.sia import Sia
from models.cluster.schedulers.scheduler import Scheduler
from models.cluster.schedulers.shortest import Sjf, Srtf
from pdes.errors import ConfigError, suggestion
from pdes.files import from_python
from pdes.units import shown

SCHEDULERS: dict[str, type[Scheduler]] = {
    "fcfs": Fcfs,
    "backfill": Backfill,
    "sjf": Sjf,
    "srtf": Srtf,
    "priority": Priority,
    "quota": Quota,
    "mast": Mast,
    "las": Las,
    "gang": Gang,
    "fifo-rounds": FifoRounds,
    "fifo-perf": FifoPerf,
    "max-min": MaxMin,
    "max-min-perf": MaxMinPerf,
    "finish-time-fair": FinishTimeFair,
    "allox": Allox,
    "sia": Sia,
    "pollux": Pollux,
}
ACCEPTED = f"{', '.join(SCHEDULERS)}, or file.py:Class with a subclass of models.cluster.schedulers.scheduler.Scheduler"


def find_scheduler(
    name: str, path_of: Callable[[str], Path], fault: Callable[[str, str], ConfigError]
) -> type[Scheduler]:
    """path_of: a file by its name. fault: makes the error of what was found and what is accepted."""
    if name in SCHEDULERS:
        return SCHEDULERS[name]
    file, colon, symbol = name.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise fault(f"found {shown(name)}", f"Accepted: {ACCEPTED}{suggestion(name, SCHEDULERS)}")
    path = path_of(file)
    if not path.is_file():
        raise fault(f"found {shown(name)}, and there is no file {path}", f"Accepted: {ACCEPTED}")
    try:
        found = from_python(path, symbol)
    except ConfigError as error:
        raise fault(f"{path} {error.found}", error.accepted) from error
    if not (isinstance(found, type) and issubclass(found, Scheduler)):
        raise fault(f"{path} has no scheduler {shown(symbol)}", f"Accepted: {ACCEPTED}")
    return found
