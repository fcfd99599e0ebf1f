"""Which ranks a traced job has, and which of them a communication is between, by what PyTorch writes of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pdes.errors import ConfigError
from pdes.units import shown

MAX_RANKS = 2**20


@dataclass(frozen=True)
class Job:
    """rank, n_rank: of `distributedInfo`; has_rank: it says so. groups: ranks of process groups by name."""

    rank: int = 0
    n_rank: int = 0
    has_rank: bool = False
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, found: object, path: str) -> "Job":
        """What `distributedInfo` says. ConfigError: numbers that are none."""
        if found is None:
            return cls()
        where = f"{path}, distributedInfo"
        if not isinstance(found, dict):
            raise ConfigError(where, f"found {shown(found)}", '{"rank": 0, "world_size": 8, ...}')
        n_rank, rank = found.get("world_size"), found.get("rank")
        if type(n_rank) is not int or type(rank) is not int or not 0 <= rank < n_rank <= MAX_RANKS:
            text = f"rank {shown(rank)} of world_size {shown(n_rank)}"
            raise ConfigError(where, text, f"a rank below world_size, at most {MAX_RANKS}")
        groups, listed = {}, found.get("pg_config")
        for one in listed if isinstance(listed, list) else ():
            if isinstance(one, dict) and isinstance(one.get("ranks"), list):
                ranks = one["ranks"]
                if ranks and all(type(r) is int for r in ranks):
                    groups[str(one.get("pg_name"))] = tuple(ranks)
        return cls(rank, n_rank, True, groups)


def ranks_of_group(words: Mapping[str, Any], n: int, job: Job, where: str) -> tuple[tuple[int, ...], str]:
    """(ranks, name) of a communication's process group of n ranks. ConfigError: they are not known, or not n."""
    name = str(words.get("Process Group Name", ""))
    text = words.get("Process Group Ranks")
    ranks = _listed(text, n)
    if not ranks:
        ranks = job.groups.get(name, ())
    if not ranks:
        start, stride = words.get("Global rank start"), words.get("Global rank stride")
        if type(start) is int and type(stride) is int and stride > 0:
            ranks = tuple(start + stride * i for i in range(min(n, MAX_RANKS)))
    if not ranks and n in (job.n_rank, 1):
        ranks = tuple(range(n)) if n > 1 else (job.rank,)
    if len(ranks) != n or len(set(ranks)) != n or any(not 0 <= r < MAX_RANKS for r in ranks):
        found = f'"Process Group Ranks" {shown(text)} of "Group size" {n}'
        raise ConfigError(where, found, "all ranks of the group, here or in distributedInfo's pg_config")
    return ranks, name


def _listed(text: object, n: int) -> tuple[int, ...]:
    """Ranks in "[0, 1, 2]". With "..." in it, at equal strides, the rest follows from n; else it is not known."""
    if isinstance(text, list):
        return tuple(text) if all(type(r) is int for r in text) else ()
    if not isinstance(text, str) or len(text) > 2**24:
        return ()
    shown_ones, is_cut, _ = text.partition("...")
    ranks = tuple(int(r) for r in re.findall(r"\d{1,9}", shown_ones))
    if not is_cut or len(ranks) < 2 or not len(ranks) <= n <= MAX_RANKS:
        return () if is_cut else ranks
    stride = ranks[1] - ranks[0]
    if any(b - a != stride for a, b in zip(ranks, ranks[1:], strict=False)):
        return ()
    return tuple(ranks[0] + stride * i for i in range(n))
