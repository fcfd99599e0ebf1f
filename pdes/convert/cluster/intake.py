"""What every reader does with the fields of a line: check them, write down what is wrong, and keep the job or not."""

from collections.abc import Callable
from pathlib import Path

from pdes.convert.cluster.audit import LEFT_OUT, Audit, Finding, plain, quoted
from pdes.convert.cluster.fields import PER_UNIT, decimal, is_nothing, millionths
from pdes.convert.cluster.jobs import NONE, Job, JobTable
from pdes.convert.cluster.rates import Rates

NO_SUBMIT, BAD_SUBMIT = "no submit time", "submit time that is none"
NO_DURATION, BAD_DURATION = "no duration", "duration that is none"
NEGATIVE_DURATION, ZERO_DURATION = "duration below zero", "duration of zero"
NO_GPUS, BAD_GPUS, ZERO_GPUS = "no number of GPUs", "GPU count that is none", "zero GPUs"
NEGATIVE_GPUS, FRACTION, MANY_GPUS = "GPUs below zero", "fraction of a GPU", "more than a million GPUs"
END_BEFORE_START, EARLY_START = "end before start", "start before submission"
BAD_TIME, AS_MISSING = "time that is none", "taken as missing"
OTHER_DURATION = "duration that is not end - start"
NO_ID, DUPLICATE, DISORDER, CPU_ONLY = "no id", "duplicate id", "before the job of the line before", "no GPU"
BAD_MACHINE = "machine without a number of GPUs"
BAD_STEPS, BAD_PRIORITY = "steps that are none", "priority that is none"
SORTED, ROUNDED, AS_SPAN = "sorted by time", "rounded up to whole GPUs", "taken as end - start"
MOST_GPUS, MOST_STEPS, MOST_PRIORITY = 10**6, 10**15, 10**9
SHORTEST_US = PER_UNIT  # the traces count seconds: a job of none took less than one
USUAL_PER_SERVER = 8
MAX_TEXT = 200


class Intake:
    """Takes a trace's jobs in. machines: (type of GPU, GPUs) to how many servers of these the trace names.

    profiles: the file or folder that the command says has speeds; None: what lies beside the trace. rates: what the
    reader found there. per_server: GPUs of a server, if nothing says it. has_machines: the command says what there is.
    """

    def __init__(self, audit: Audit, table: JobTable) -> None:
        self.audit, self.table = audit, table
        self.machines: dict[tuple[str, int], int] = {}
        self.machine_file = ""
        self.profiles: Path | None = None
        self.rates: Rates | None = None
        self.has_machines = False
        self.per_server = USUAL_PER_SERVER
        self.is_dated = False  # submit times are dates
        self.n_row = 0
        self._file, self._line, self._job = "", 0, ""
        self._cpu_only: tuple[int, int] = 0, 0  # how many, the first one's line
        self._before_us: int | None = None

    def begin_file(self, path: Path) -> None:
        """What follows is of this file."""
        self._file = path.name

    def begin(self, line: int, job: str) -> None:
        """What follows is of this line and job."""
        self._line, self._job = line, job if len(job) <= MAX_TEXT and job.isprintable() else plain(job[:MAX_TEXT])
        self.n_row += 1

    def wrong(self, kind: str, column: str, word: str = "", done: str = LEFT_OUT) -> None:
        """A finding about the line."""
        self.audit.add(Finding(kind, self._file, self._line, self._job, column, word, done))

    def submit(self, column: str, word: str, parse: Callable[[str], int | None]) -> int | None:
        """When a job was submitted; None: it is left out."""
        if is_nothing(word):
            self.wrong(NO_SUBMIT, column)
            return None
        time = parse(word)
        if time is None:
            self.wrong(BAD_SUBMIT, column, quoted(word))
        return time

    def time(self, column: str, word: str, parse: Callable[[str], int | None]) -> int | None:
        """A time that may be missing: something else may say the same."""
        if is_nothing(word):
            return None
        time = parse(word)
        if time is None:
            self.wrong(BAD_TIME, column, quoted(word), AS_MISSING)
        return time

    def duration(self, column: str, word: str) -> int | None:
        """How long a job runs, of a number of seconds; None: it is left out."""
        if is_nothing(word):
            self.wrong(NO_DURATION, column)
            return None
        value = millionths(word)
        if value is None:
            self.wrong(BAD_DURATION, column, quoted(word))
            return None
        return self.positive(column, value)

    def positive(self, column: str, value_us: int) -> int | None:
        """A duration that is above zero, if need be a second; None: it is below zero, and the job is left out."""
        if value_us > 0:
            return value_us
        if value_us < 0:
            self.wrong(NEGATIVE_DURATION, column, f"{decimal(value_us)} s")
            return None
        self.wrong(ZERO_DURATION, column, "0 s", "taken as 1 s")
        return SHORTEST_US

    def span(self, start: int | None, end: int | None, columns: tuple[str, str]) -> int | None:
        """From start to end; None: one is missing, or the end comes first, which is a finding."""
        if start is None or end is None:
            return None
        if end < start:
            self.wrong(END_BEFORE_START, columns[1], f"{decimal(start - end)} s before {columns[0]}")
            return None
        return end - start

    def gpus(
        self, column: str, word: str, per_gpu: int = PER_UNIT, n: int = 1, may_be_none: bool = False
    ) -> int | None:
        """Whole GPUs of `n` times a number; None: the job is left out. per_gpu: millionths of the number to one GPU.

        may_be_none: the trace has jobs without GPUs, which are only counted.
        """
        if is_nothing(word):
            self.wrong(NO_GPUS, column)
            return None
        value = millionths(word)
        if value is None:
            self.wrong(BAD_GPUS, column, quoted(word))
            return None
        return self.whole_gpus(column, value * n, per_gpu, may_be_none)

    def whole_gpus(self, column: str, value: int, per_gpu: int = PER_UNIT, may_be_none: bool = False) -> int | None:
        """The same, of a number of millionths."""
        if value == 0 and may_be_none:
            n, first = self._cpu_only
            self._cpu_only = n + 1, first or self._line
            return None
        if value <= 0:
            self.wrong(NEGATIVE_GPUS if value else ZERO_GPUS, column, decimal(value))
            return None
        whole = -(-value // per_gpu)
        if whole > MOST_GPUS:
            self.wrong(MANY_GPUS, column, str(whole))
            return None
        if value % per_gpu:
            self.wrong(FRACTION, column, decimal(value), ROUNDED)
        return whole

    def whole(self, column: str, word: str, kind: str, most: int, default: int) -> int:
        """A whole number of at most `most` either side; another one is a finding, and the default."""
        value = millionths(word)
        if value is not None and abs(value) <= most * PER_UNIT and value % PER_UNIT == 0:
            return value // PER_UNIT
        self.wrong(kind, column, quoted(word), "taken as none" if default == NONE else f"taken as {default}")
        return default

    def take(self, job: Job, column: str) -> None:
        """Keep a job, unless its id is taken. column: of its submit time."""
        if not self._job:
            job = job._replace(job=f"line-{job.line}")
            self.wrong(NO_ID, "", "", f"named {job.job[:5]} and its number")
        else:
            job = job._replace(job=self._job)
        first = self.table.lines.get(job.job)
        if first is not None:
            self.wrong(DUPLICATE, "", f"line {first} has it")
            return
        if self._before_us is not None and job.submit_us < self._before_us:
            self.wrong(DISORDER, column, f"by {decimal(self._before_us - job.submit_us)} s", SORTED)
        self._before_us = job.submit_us
        self.table.add(job._replace(tenant=_text(job.tenant), kind=_text(job.kind), gpu_type=_text(job.gpu_type)))

    def machine(self, line: int, name: str, gpu: str, column: str, word: str) -> None:
        """One machine with `word` GPUs of a type; one without any is passed over."""
        self.begin(line, name)
        self.n_row -= 1
        value = millionths(word)
        if value is None or value < 0 or value % PER_UNIT or value > MOST_GPUS * PER_UNIT:
            self.wrong(BAD_MACHINE, column, quoted(word))
        elif value:
            key = _text(gpu), value // PER_UNIT
            self.machines[key] = self.machines.get(key, 0) + 1

    def end(self) -> None:
        """What is only known when all lines are read."""
        n, first = self._cpu_only
        if n:
            what = f"{n:,} from line {first} on"
            self.audit.add(Finding(CPU_ONLY, self._file, first, "", "", what, LEFT_OUT, n))


def _text(word: str) -> str:
    if word.isprintable() and len(word) <= MAX_TEXT:
        return "" if is_nothing(word) else word
    return plain(word[:MAX_TEXT])
