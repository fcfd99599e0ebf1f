"""The servers that a trace's jobs run on: as given, as the trace names them, or as many as make a usual load.

Load is what jobs ask, GPUs times duration, by what there is: all GPUs, from the first submission to the last.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from pdes.convert.cluster.audit import LEFT_OUT, Finding, quoted
from pdes.convert.cluster.fields import DAY_US, PER_UNIT
from pdes.convert.cluster.intake import Intake
from pdes.convert.cluster.jobs import NONE, JobTable
from pdes.errors import ConfigError

USUAL_LOAD_PERCENT = 80
NO_NAME = "GPU"  # of a type that nobody says
MOST_SERVERS = 10**7
ASSUMED, UNKNOWN_TYPE = "machines are not named", "unknown type of GPU"
TOO_LARGE, SPREAD = "more GPUs than the cluster has for it", "more GPUs than a server has"
OVERLOAD, BUSY_DAY, UNKNOWN_LOAD = "demand above capacity", "demand above capacity on a day", "demand is not known"
HOUR_US = 3600 * PER_UNIT
POOL = re.compile(r"([^\s=]{1,60})=([0-9]{1,9})(?:x([0-9]{1,9}))?")


class Given(NamedTuple):
    """What the command says of the machines; None: nothing. pools: TYPE=SERVERS or TYPE=SERVERSxGPUS, each."""

    servers: int | None = None
    gpus_per_server: int | None = None
    gpu: str | None = None
    pools: tuple[str, ...] = ()

    def check(self) -> None:
        """ConfigError: a number or name is none, or two options say the same."""
        if self.pools and (self.servers is not None or self.gpu is not None):
            other = "--gpu" if self.servers is None else "--servers"
            raise ConfigError(other, "beside --pool", "--pool for each type of GPU, or --servers and --gpu for one")
        for option, value, most in (
            ("--servers", self.servers, MOST_SERVERS), ("--gpus-per-server", self.gpus_per_server, 10**4),
        ):  # fmt: skip
            if value is not None and not 1 <= value <= most:
                raise ConfigError(option, f"found {value}", f"a whole number from 1 to {most:,}")
        if self.gpu is not None and not (0 < len(self.gpu) <= 60 and self.gpu.isprintable() and self.gpu.strip()):
            raise ConfigError("--gpu", f"found {self.gpu[:60]!r}", 'the name of a type of GPU, such as "V100"')

    def has_all(self) -> bool:
        """Whether the command says how many servers there are."""
        return bool(self.pools) or self.servers is not None

    def read_pools(self, per_server: int) -> "list[Pool]":
        """What --pool says. per_server: GPUs of a server, where it does not. ConfigError: one is none."""
        found = []
        for word in self.pools:
            match = POOL.fullmatch(word)
            numbers = (int(match[2]), int(match[3] or self.gpus_per_server or per_server)) if match else (0, 0)
            if match is None or not (1 <= numbers[0] <= MOST_SERVERS and 1 <= numbers[1] <= 10**4):
                raise ConfigError("--pool", f"found {quoted(word)}", "TYPE=SERVERS, or TYPE=SERVERSxGPUS: v100=9x4")
            found.append(Pool(match[1], *numbers))
        return found


class Pool(NamedTuple):
    """Servers that are the same."""

    gpu: str
    servers: int
    gpus_per_server: int

    @property
    def gpus(self) -> int:
        """Of all its servers."""
        return self.servers * self.gpus_per_server


class Load(NamedTuple):
    """What is asked. asked: GPU-microseconds; worst: of the jobs submitted on the worst day, `day`."""

    asked: int
    span_us: int
    worst: int
    day: int


def pools_of(intake: Intake, given: Given) -> list[Pool]:
    """The pools, and a finding where something was assumed. Those of one type stand together, large servers first."""
    if given.pools:
        return given.read_pools(intake.per_server)
    if given.servers is None and intake.machines:
        return _named(intake.machines, given)
    per_server = given.gpus_per_server or intake.per_server
    if given.servers is not None:
        return [Pool(given.gpu or _only_type(intake.table), given.servers, per_server)]
    pools = list(_assumed(intake.table, per_server, given.gpu))
    text = ", ".join(f"{pool.servers:,} x {pool.gpus_per_server} {pool.gpu}" for pool in pools[:6])
    why = f"a load of {USUAL_LOAD_PERCENT} %, and room for the largest job" if any(_work(intake.table)) else (
        "room for the largest job")  # fmt: skip
    intake.audit.add(Finding(ASSUMED, intake.audit.main, 0, "", "", "", f"assumed {text}: {why}"))
    return pools


def _named(machines: dict[tuple[str, int], int], given: Given) -> list[Pool]:
    """The machines of the trace; the command may say their type, and how many GPUs there are to a server."""
    n_server: dict[tuple[str, int], int] = {}
    n_gpu: dict[str, int] = {}
    for (gpu, gpus), n in machines.items():
        name = given.gpu or gpu or NO_NAME
        n_server[name, gpus] = n_server.get((name, gpus), 0) + n
        n_gpu[name] = n_gpu.get(name, 0) + gpus * n
    if given.gpus_per_server is not None:
        n_server = {(name, given.gpus_per_server): -(-n // given.gpus_per_server) for name, n in n_gpu.items()}
    found = [Pool(name, n, gpus) for (name, gpus), n in n_server.items()]
    return sorted(found, key=lambda pool: (pool.gpu, -pool.gpus_per_server))


def _only_type(table: JobTable) -> str:
    names = [name for name in table.gpu_type.names() if name]
    return names[0] if len(names) == 1 else NO_NAME


def _assumed(table: JobTable, per_server: int, gpu: str | None) -> Iterator[Pool]:
    """A pool per type that jobs ask for; jobs that ask for none count where most is asked."""
    names = table.gpu_type.names()
    asked, largest = [0] * len(names), [0] * len(names)
    for code, gpus, work in zip(table.gpu_type.column, table.gpus, _work(table), strict=True):
        asked[code] += work
        largest[code] = max(largest[code], gpus)
    if gpu is not None or not any(names):
        names, asked, largest = [gpu or NO_NAME], [sum(asked)], [max(largest)]
    if "" in names:
        free = names.index("")
        most = max((code for code in range(len(names)) if code != free), key=asked.__getitem__)
        asked[most] += asked[free]
        largest[most] = max(largest[most], largest[free])
    span_us = span_of(table)
    for name, work, gpus in sorted(zip(names, asked, largest, strict=True)):
        if name:
            usual = -(-work * 100 // (USUAL_LOAD_PERCENT * span_us * per_server)) if span_us else 0
            yield Pool(name, max(usual, -(-gpus // per_server), 1), per_server)


def _work(table: JobTable) -> Iterator[int]:
    """GPU-microseconds of each job; 0 where the trace does not say how long it runs."""
    return (
        gpus * us if us != NONE else 0
        for gpus, us in zip(table.gpus, table.duration_us, strict=True)
    )  # fmt: skip


def span_of(table: JobTable) -> int:
    """From the first submission to the last; the longest job's time if all come at once."""
    if not len(table):
        return 0
    return (max(table.submit_us) - min(table.submit_us)) or max(max(table.duration_us), 0)


def place(intake: Intake, pools: list[Pool], file: str, is_left_out: bytearray | None = None) -> bytearray:
    """1 for each job that no pool has room for; types that no pool has are taken away. Findings say so.

    is_left_out: jobs that stay out in any case, written.
    """
    table = intake.table
    total: dict[str, int] = {}
    largest: dict[str, int] = {}
    for pool in pools:
        total[pool.gpu] = total.get(pool.gpu, 0) + pool.gpus
        largest[pool.gpu] = max(largest.get(pool.gpu, 0), pool.gpus_per_server)
    total[""], largest[""] = max(total.values()), max(largest.values())
    names, any_code = table.gpu_type.names(), table.gpu_type.codes.setdefault("", len(table.gpu_type.codes))
    column, is_left_out = table.gpu_type.column, is_left_out or bytearray(len(table))
    rooms = [(total.get(name), largest.get(name, 0)) for name in (*names, "")]
    for i, (job, line) in enumerate(table.lines.items()):
        if is_left_out[i]:
            continue
        room, on_one = rooms[column[i]]
        if room is None:
            name = names[column[i]]
            intake.audit.add(Finding(UNKNOWN_TYPE, file, line, job, "gpu_type", f'"{name}"', "taken as any"))
            column[i] = any_code
            room, on_one = total[""], largest[""]
        gpus = table.gpus[i]
        if gpus > room:
            intake.audit.add(Finding(TOO_LARGE, file, line, job, "gpus", f"{gpus}, not {room}", LEFT_OUT))
            is_left_out[i] = 1
        elif gpus > on_one and table.is_on_one[i]:
            found = f"{gpus} on one, which has {on_one}"
            intake.audit.add(Finding(SPREAD, file, line, job, "gpus", found, "kept: it takes several servers"))
    return is_left_out


def load_of(intake: Intake, order: Iterable[int], durations_us: Sequence[int]) -> Load:
    """Of the jobs that stay. Days are the calendar's where submit times are dates, else they count from the first."""
    table = intake.table
    days: dict[int, int] = {}
    first = last = None
    longest = 0
    for i in order:
        submit_us, duration_us = table.submit_us[i], durations_us[i]
        first, last, longest = submit_us if first is None else first, submit_us, max(longest, duration_us)
        if duration_us != NONE:
            day = (submit_us - (0 if intake.is_dated else first)) // DAY_US
            days[day] = days.get(day, 0) + table.gpus[i] * duration_us
    worst = max(days, key=lambda day: (days[day], -day), default=0)
    span_us = (last or 0) - (first or 0) or longest
    return Load(sum(days.values()), span_us, days.get(worst, 0), worst)


def load_lines(intake: Intake, load: Load, pools: list[Pool], file: str) -> list[str]:
    """What people are told of the load; findings where it is above what there is."""
    n_gpu = sum(pool.gpus for pool in pools)
    if not load.asked or not load.span_us:
        intake.audit.add(Finding(UNKNOWN_LOAD, file, 0, "", "duration", "no job has a duration", "kept"))
        return ["asked: not known, as no job has a duration; steps need a table of speeds, see --profiles"]
    day = f"day {load.day + 1}"
    if intake.is_dated:
        day = datetime.fromtimestamp(load.day * DAY_US // PER_UNIT, UTC).strftime("%Y-%m-%d")
    texts = []
    for kind, asked, there, when in (
        (OVERLOAD, load.asked, n_gpu * load.span_us, f"in {_days(load.span_us)} days"),
        (BUSY_DAY, load.worst, n_gpu * DAY_US, f"by the jobs of {day}"),
    ):
        text = f"{_hours(asked)} of {_hours(there)} GPU-hours {when}, {100 * asked / there:,.0f} %"
        texts.append(text)
        if asked > there:
            intake.audit.add(Finding(kind, file, 0, "", "duration", text, "kept"))
    return [f"asked: {texts[0]}; at most {texts[1]}"]


def _hours(value: int) -> str:
    hours = value / HOUR_US
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}"


def _days(value_us: int) -> str:
    days = value_us / DAY_US
    return f"{days:,.1f}" if days >= 1 else f"{days:.2g}"
