"""Jobs of a trace, column by column: millions of them fit in memory."""

from array import array
from collections.abc import Iterator
from typing import NamedTuple

NONE = -1  # a duration or number of steps that the trace does not say


class Job(NamedTuple):
    """One job. submit_us: on the trace's own clock; duration_us, steps: or NONE. is_on_one: on one server only."""

    line: int
    job: str
    submit_us: int
    duration_us: int
    gpus: int
    tenant: str = ""
    priority: int = 0
    kind: str = ""
    gpu_type: str = ""
    steps: int = NONE
    status: str = ""
    is_on_one: bool = False


class Words:
    """A column of words of which many are the same."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.column = array("i")

    def add(self, word: str) -> None:
        """One more row."""
        self.column.append(self.codes.setdefault(word, len(self.codes)))

    def names(self) -> list[str]:
        """Code to word."""
        return list(self.codes)


class JobTable:
    """All jobs in the order in which they were read. Owner: `intake.Intake`; `machines` replaces types of GPUs.

    lines: job to its line, in order. The other columns have a row per job.
    """

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.submit_us, self.duration_us, self.gpus = array("q"), array("q"), array("q")
        self.priority, self.steps = array("q"), array("q")
        self.tenant, self.kind, self.gpu_type, self.status = Words(), Words(), Words(), Words()
        self.is_on_one = bytearray()

    def __len__(self) -> int:
        return len(self.gpus)

    def add(self, job: Job) -> None:
        """One more row; its id is a new one."""
        self.lines[job.job] = job.line
        self.submit_us.append(job.submit_us)
        self.duration_us.append(job.duration_us)
        self.gpus.append(job.gpus)
        self.priority.append(job.priority)
        self.steps.append(job.steps)
        for words, word in (
            (self.tenant, job.tenant), (self.kind, job.kind), (self.gpu_type, job.gpu_type), (self.status, job.status),
        ):  # fmt: skip
            words.add(word)
        self.is_on_one.append(job.is_on_one)

    def order(self, is_left_out: bytearray) -> list[int]:
        """Rows that stay, by submission; those of one time as they were read."""
        return sorted((i for i in range(len(self)) if not is_left_out[i]), key=self.submit_us.__getitem__)

    def jobs(self, order: list[int]) -> Iterator[Job]:
        """The jobs of these rows."""
        ids = list(self.lines)
        tenants, kinds, types, statuses = (
            words.names() for words in (self.tenant, self.kind, self.gpu_type, self.status)
        )
        for i in order:
            yield Job(
                self.lines[ids[i]], ids[i], self.submit_us[i], self.duration_us[i], self.gpus[i],
                tenants[self.tenant.column[i]], self.priority[i], kinds[self.kind.column[i]],
                types[self.gpu_type.column[i]], self.steps[i], statuses[self.status.column[i]], bool(self.is_on_one[i]),
            )  # fmt: skip
