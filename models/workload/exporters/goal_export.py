"""Our workload as a GOAL schedule in text: calc, send and recv, one after the other in each stream.

Rings and exchanges are written out message by message, each queue pair with its own tag; times are rounded up to ns.
What is timed for a group is a calc of each member, which GOAL cannot make start together.
"""

from pathlib import Path

from models.workload.exporters.unroll import Step, check_exportable, steps_of
from models.workload.plan import WorkloadPlan
from models.workload.program import (
    OP_COMPUTE,
    OP_EXCHANGE,
    OP_GROUP,
    OP_OPEN,
    OP_PASS,
    OP_RECEIVE,
    OP_RING,
    OP_SEND,
)
from pdes.errors import ConfigError
from pdes.units import PS_PER_NS


def write_goal(plan: WorkloadPlan, path: Path) -> list[Path]:
    """Write the schedule. ConfigError: the plan cannot be written so, or the file not be written."""
    check_exportable(plan)
    gpus = plan.streams["gpu"].tolist()
    sizes = _message_bytes(plan)
    n_rank = max(gpus) + 1
    lines = [f"num_ranks {n_rank}"]
    for gpu in range(n_rank):
        rank = _Rank(plan, sizes)
        for cpu, i in enumerate(i for i in range(len(gpus)) if gpus[i] == gpu):
            rank.add_stream(cpu, list(steps_of(plan, i)))
        lines += ["", f"rank {gpu} {{", *rank.finish(), "}"]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    except OSError as error:
        raise ConfigError(str(path), f"cannot be written: {error.strerror}", "a file name in a folder") from error
    return [path]


def _message_bytes(plan: WorkloadPlan) -> dict[int, list[int]]:
    """Sizes of the messages of every queue pair, in the order in which they are sent."""
    sizes: dict[int, list[int]] = {}
    for i in range(len(plan.streams)):
        for step in steps_of(plan, i):
            n = step.n_step if step.kind == OP_RING else 1
            for pair in step.out:
                sizes.setdefault(pair, []).extend([step.size_bytes] * n)
    return sizes


class _Rank:
    """Lines of one rank."""

    def __init__(self, plan: WorkloadPlan, sizes: dict[int, list[int]]) -> None:
        self._plan, self._sizes = plan, sizes
        self._lines: list[str] = []
        self._requires: list[str] = []
        self._opened: dict[int, list[int]] = {}
        self._waits: list[tuple[int, int, int]] = []  # (label, gate, how many were passed before)
        self._passed: dict[int, int] = {}
        self._received: dict[int, int] = {}

    def add_stream(self, cpu: int, steps: list[Step]) -> None:
        """Append what a stream does; each step waits for all that the one before it did."""
        before: list[int] = []
        for step in steps:
            before = self._add(cpu, step, before)

    def finish(self) -> list[str]:
        """All lines; a gate's k-th passage requires its k-th opening."""
        for label, gate, k in self._waits:
            for opener in self._opened.get(gate, [])[k : k + 1]:
                self._requires.append(f"l{label} requires l{opener}")
        return self._lines + self._requires or ["l1: calc 0"]

    def _line(self, text: str, before: list[int]) -> int:
        label = len(self._lines) + 1
        self._lines.append(f"l{label}: {text}")
        self._requires += [f"l{label} requires l{other}" for other in before]
        return label

    def _send(self, pair: int, size_bytes: int, before: list[int]) -> int:
        return self._line(f"send {size_bytes}b to {self._plan.pair_dst[pair]} tag {pair}", before)

    def _receive(self, pair: int, before: list[int]) -> int:
        k = self._received.get(pair, 0)
        self._received[pair] = k + 1
        return self._line(f"recv {self._sizes[pair][k]}b from {self._plan.pair_src[pair]} tag {pair}", before)

    def _add(self, cpu: int, step: Step, before: list[int]) -> list[int]:
        """Append one step; the labels that the next one waits for."""
        if step.kind == OP_SEND:
            return [self._send(step.out[0], step.size_bytes, before)]
        if step.kind == OP_RECEIVE:
            return [self._receive(step.into[0], before)]
        if step.kind == OP_RING:
            for _ in range(step.n_step):
                self._send(step.out[0], step.size_bytes, before)
                before = [self._receive(step.into[0], before)]
            return before
        if step.kind == OP_EXCHANGE:
            sends = [self._send(pair, step.size_bytes, before) for pair in step.out]
            return sends + [self._receive(pair, before) for pair in step.into]
        time_ns = -(-step.time_ps // PS_PER_NS) if step.kind in (OP_COMPUTE, OP_GROUP) else 0
        label = self._line(f"calc {time_ns} cpu {cpu}", before)
        if step.kind == OP_OPEN:
            self._opened.setdefault(step.number, []).append(label)
        if step.kind == OP_PASS:
            k = self._passed.get(step.number, 0)
            self._passed[step.number] = k + 1
            self._waits.append((label, step.number, k))
        return [label]
