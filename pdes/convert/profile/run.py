"""`pdes-sim convert kineto` and `convert nsight`: which files there are, and what people are told."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from pdes.convert.profile.communication import given_bytes
from pdes.convert.profile.seen import RankProfile
from pdes.convert.profile.write import write_profiles
from pdes.convert.servers import Fabric
from pdes.errors import ConfigError

OURS = ".profile.json"


class Wanted(NamedTuple):
    """What the options say. step: which iteration; n_rank: of the job; sizes: bytes where the profile has none.

    waits_for_all: see `order`.
    """

    step: int | None = None
    n_rank: int | None = None
    sizes: tuple[str, ...] = ()
    waits_for_all: bool = False


Read = Callable[[Path, int | None, Mapping[str, int], dict[str, int], int | None], list[RankProfile]]


def convert_profiles(
    source: Path, output: Path, wanted: Wanted, fabric: Fabric, form: tuple[str, Read, str]
) -> list[str]:
    """Write config and programs; warnings. form: name, reader, pattern of a folder's files. ConfigError: as readers."""
    name, read, pattern = form
    sizes, notes = given_bytes(list(wanted.sizes)), {}
    paths = [source]
    if source.is_dir():
        paths = sorted(
            path for path in source.iterdir() if re.search(pattern, path.name) and not path.name.endswith(OURS)
        )
        if not paths:
            raise ConfigError(str(source), "no such file in the folder", f"one file per rank, named like {pattern}")
    try:
        profiles = [one for path in paths for one in read(path, wanted.step, sizes, notes, wanted.n_rank)]
    except OSError as error:
        raise ConfigError(str(error.filename or source), f"cannot be read: {error.strerror}", "a profile") from error
    for profile in profiles:
        profile.waits_for_all = wanted.waits_for_all
    write_profiles(_complete(profiles, source), output, fabric, name)
    said = [f"{text}: {count}" for text, count in notes.items()]
    return (
        [f"{profiles[0].path}: {profiles[0].iteration}", *said]
        if not profiles[0].iteration.startswith("iteration")
        else said
    )


def _complete(profiles: list[RankProfile], source: Path) -> list[RankProfile]:
    """One for all ranks, or one of each. ConfigError: some are missing, or a rank is there twice."""
    n_rank = max(profile.n_rank for profile in profiles)
    if len(profiles) == 1 and not source.is_dir():
        return profiles
    by_rank: dict[int, RankProfile] = {}
    for profile in profiles:
        if profile.rank in by_rank:
            text = f"rank {profile.rank} a second time, after {by_rank[profile.rank].path}"
            raise ConfigError(profile.path, text, "one file per rank")
        by_rank[profile.rank] = profile
    missing = next((rank for rank in range(n_rank) if rank not in by_rank), None)
    if missing is not None:
        accepted = f"a file of each of the {n_rank} ranks; or one file instead of a folder, which stands for all ranks"
        raise ConfigError(str(source), f"none of rank {missing}", accepted)
    return [by_rank[rank] for rank in sorted(by_rank)]
