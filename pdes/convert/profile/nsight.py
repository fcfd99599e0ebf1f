"""Nsight Systems' recordings as SQLite (`nsys export --type sqlite`): the kernels of one process or several, and NCCL's ranges.

A GPU of a process is a rank. A kernel belongs to the call that launched it (its correlation), and that to the range of
NCCL around it on the same thread. NCCL says there how many bytes it moves and for which communicator: as JSON, or as
bytes in the form that NVTX_PAYLOAD_SCHEMA_ENTRIES describes, behind a head of 32 bytes (domain and schema, 8 bytes
each, and two sizes). Who a communicator's ranks are follows from the ranges of their initialisation, if all of them are
in the recording, or if it has as many as the job.
"""

import sqlite3
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pdes.convert.profile.communication import (
    MAX_BYTES,
    call_operation,
    is_communication,
    kernel_operation,
    measured,
    note,
)
from pdes.convert.profile.nsight_tables import Recording
from pdes.convert.profile.payload import COMMUNICATOR, N_RANK, RANK, SIZE, payload_of, schemas_of
from pdes.convert.profile.seen import RECEIVE, SEND, Communication, Kernel, RankProfile
from pdes.convert.profile.steps import Marked, of_step, step_number
from pdes.errors import ConfigError
from pdes.units import PS_PER_NS

PER_RANK = ("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter")  # NCCL counts one rank's share of these
MAX_NS = 2**63 // PS_PER_NS
Place = tuple[int, int]
"""Process and GPU."""


@dataclass(frozen=True)
class _Range:
    """A range of NCCL on a thread."""

    begin_ns: int
    end_ns: int
    text: str
    said: dict[str, int]


@dataclass
class _Seen:
    """What a recording holds besides kernels."""

    ranges: dict[int, list[_Range]] = field(default_factory=dict)  # by thread, by their begins
    launches: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)  # (begin, thread)
    waits: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # by process, ps
    steps: dict[int, list[Marked]] = field(default_factory=dict)  # by process


def read_nsight(
    path: Path, step: int | None, sizes: Mapping[str, int], notes: dict[str, int], n_rank: int | None = None
) -> list[RankProfile]:
    """The profiles of a recording's ranks, or of its first if it does not have all of the job's.

    sizes: bytes by operation, of those without. notes: counts of what people are told. ConfigError names the table.
    """
    try:
        with Recording(path) as recording:
            seen = _seen(recording)
            rows = list(recording.kernels())
    except sqlite3.Error as error:
        raise ConfigError(str(path), f"is no recording that can be read: {error}", "nsys export --type sqlite") from error
    if not rows:
        raise ConfigError(str(path), "no kernel of a GPU", "a recording with --trace cuda,nvtx")
    places = sorted({row.place for row in rows})
    members, n_said = _members(seen, places)
    n_rank = n_rank or n_said or len(places)
    rank_of = _ranks(places, members, n_rank)
    profiles = []
    for place in places:
        mine = [
            replace(kernel, communication=_communication(kernel, row, seen, members, n_rank, rank_of, sizes, notes))
            if is_communication(kernel.name)
            else kernel
            for row, kernel in ((row, _kernel(row, seen, path)) for row in rows if row.place == place)
        ]
        taken, begin_ps, said = of_step(mine, seen.steps.get(place[0], []), step, str(path))
        profile = RankProfile(rank_of[place], n_rank, str(path), begin_ps, taken, iteration=said)
        profile.host_waits = seen.waits.get(place[0], [])
        profiles.append(profile)
    profiles.sort(key=lambda one: one.rank)
    return profiles if len(profiles) == n_rank else profiles[:1]
