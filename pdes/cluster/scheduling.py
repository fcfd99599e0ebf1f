"""The scheduler of a run: what it may be told, what is said of its turns, and errors of a user's own."""

import linecache
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from models.cluster.asked import AskError, StuckError
from models.cluster.job import Request
from models.cluster.loop import Cluster
from models.cluster.schedulers.scheduler import Scheduler
from pdes.config.cluster.load import Loaded
from pdes.errors import ConfigError, SimError, closest
from pdes.units import format_long_duration, shown

MINUTE_US = 60e6
TIMES_A_STOP = 10  # of what a stop costs, a turn that is long enough


def options_of(loaded: Loaded, scheduler: type[Scheduler]) -> dict[str, Any]:
    """What is given, of the types of the defaults and as the scheduler accepts it. Raises ConfigError."""
    given, known = loaded.run.cluster.options, scheduler.options
    for name, value in given.items():
        key = f"[cluster.options] {name}"
        if name not in known:
            near = closest(name, list(known))
            accepted = f'Did you mean "{near}"?' if near else f"Known: {', '.join(known) or 'none'}"
            raise loaded.fault(key, f"is no option of {shown(loaded.run.cluster.scheduler)}", accepted)
        kinds = (int, float) if type(known[name]) is float else (type(known[name]),)
        if type(value) not in kinds:
            raise loaded.fault(key, f"found {shown(value)}", f"Accepted: as the default, {shown(known[name])}")
        limit = scheduler.accepted.get(name)
        if limit is not None and not limit.accepts(value):
            raise loaded.fault(key, f"found {shown(value)}", f"Accepted: {limit.words()}")
    return dict(given)


def check_one_size(loaded: Loaded, jobs: Iterable[Request]) -> None:
    """For a scheduler of jobs of one size. ConfigError: two ask for different numbers of GPUs."""
    first: Request | None = None
    for job in jobs:
        first = first or job
        if job.n_gpu != first.n_gpu:
            found = (
                f"found {shown(loaded.run.cluster.scheduler)}, whose jobs must all ask for the same number of GPUs: "
            )
            found += f"job {first.name} asks for {first.n_gpu:,}, job {job.name} for {job.n_gpu:,}"
            raise loaded.fault("[cluster] scheduler", found, "Accepted: jobs of one size, or another scheduler")


def short_turns(loaded: Loaded, scheduler: type[Scheduler]) -> str:
    """What is wrong if jobs take turns that are not longer than what a stop costs; "" if nothing is."""
    if not scheduler.turn:
        return ""
    checkpoint = loaded.run.cluster.checkpoint
    costs = checkpoint.write_us, checkpoint.restart_us, checkpoint.begin_us
    minutes, cost_us = loaded.run.cluster.options.get(scheduler.turn, scheduler.options[scheduler.turn]), sum(costs)
    if minutes * MINUTE_US > cost_us:
        return ""
    names = ("write", "restart", "begin")
    parts = ", ".join(f"{name} {format_long_duration(us)}" for name, us in zip(names, costs, strict=True))
    enough = f"{TIMES_A_STOP * cost_us / MINUTE_US:.3g}"
    return (
        f"[cluster.options] {scheduler.turn}: turns of {format_long_duration(minutes * MINUTE_US)} are not longer than "
        f"what a stop costs, {format_long_duration(cost_us)} ({parts}), so whoever takes turns gets nothing done. "
        f"Set {scheduler.turn} well above it, such as {enough}, or lower write, restart or begin"
    )


def own_file(loaded: Loaded) -> Path | None:
    """Of a scheduler of a user's own; None for ours."""
    file, colon, _ = loaded.run.cluster.scheduler.rpartition(":")
    return loaded.input_path(file) if colon else None


def made(kind: type[Scheduler], cluster: Cluster, options: dict[str, Any], source: Path | None) -> Scheduler:
    """The scheduler. source: the file of a user's own, None: ours. ConfigError: a user's own cannot be made."""
    try:
        return kind(cluster, options)
    except Exception as error:
        if source is None or isinstance(error, SimError):
            raise
        text = _text(error, source, f"{kind.__name__}.__init__")
        raise ConfigError("[cluster] scheduler", text) from error


@contextmanager
def own_errors(scheduler: Scheduler, source: Path | None) -> Iterator[None]:
    """SimError in place of what a user's own scheduler raises, with file and line. source: its file; None: ours."""
    try:
        yield
    except (SimError, StuckError):
        raise
    except Exception as error:
        if source is None or not _passed(error, scheduler, source):
            raise
        raise SimError(_text(error, source, type(scheduler).__name__)) from error


def _passed(error: Exception, scheduler: Scheduler, source: Path) -> bool:
    """Whether it came through the scheduler: its file, or what it inherits."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(f.f_code.co_filename == str(source.absolute()) or f.f_locals.get("self") is scheduler for f in frames)


def _text(error: Exception, source: Path, who: str) -> str:
    """File, line, class, what it raised, and the code there. who: the class; its function is added if it is known."""
    own = [entry for entry in traceback.extract_tb(error.__traceback__) if entry.filename == str(source.absolute())]
    if own and "." not in who:
        who = f"{who}.{own[0].name}"
    where, at = str(source), ""
    if own:
        line = own[-1].lineno or 0
        where, at = f"{source}: line {line}", f", at: {linecache.getline(str(source.absolute()), line).strip()}"
    what = f"asks for the {error}" if isinstance(error, AskError) else f"raised {type(error).__name__}: {error}"
    return f"{where}: {who} {what}{at}"
