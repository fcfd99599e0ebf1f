"""The options of `pdes-sim plan` that are about many ranks."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from pdes.errors import ConfigError
from pdes.units import QuantityError, is_count, parse_duration_ps

DEFAULT_SECONDS = 100.0
MAX_RANKS = 1 << 20
REDUCTION_NS = {2: 900.0, 32: 4_000.0, 1024: 15_000.0}
"""Measured between two ranks of one machine; beyond, typical of a node of 32 cores and of 32 nodes: give your own."""


@dataclass(frozen=True)
class Asked:
    """What the command line asks for."""

    ranks: list[int]
    profile: Path | None
    seconds: float
    reduction_ns: dict[int, float]
    is_given: bool
    """The reductions are."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `plan` that are about many ranks."""
    text = "rank counts, 1,2,4 or 1,2,4,..,1024: sample the run on one rank and predict the time on each of them"
    parser.add_argument("--ranks", metavar="N,N,..", help=text)
    text = "with --ranks: read the samples from FILE if it is there, else keep them there"
    parser.add_argument("--profile", metavar="FILE", help=text)
    text = f"with --ranks: wall time for sampling, at most, less if the run ends sooner (default {DEFAULT_SECONDS:g}s)"
    parser.add_argument("--profile-time", metavar="TIME", help=text)
    text = "with --ranks: time of a reduction (MPI_Allreduce of 8 bytes) by ranks, 2=0.9us,64=5us; two or more"
    parser.add_argument("--reduction", metavar="N=TIME,..", help=text)


def asked(arguments: argparse.Namespace) -> Asked | None:
    """What is asked for, checked; None: nothing. ConfigError."""
    if arguments.ranks is None:
        for name in ("profile", "profile_time", "reduction"):
            if getattr(arguments, name) is not None:
                raise ConfigError(f"--{name.replace('_', '-')}", "found without --ranks", "it together with --ranks")
        return None
    table = REDUCTION_NS if arguments.reduction is None else _reductions(arguments.reduction)
    seconds = DEFAULT_SECONDS
    if arguments.profile_time is not None:
        seconds = _duration_ns("--profile-time", arguments.profile_time) / 1e9
    path = None if arguments.profile is None else Path(arguments.profile)
    return Asked(_ranks(arguments.ranks), path, seconds, table, arguments.reduction is not None)


def _ranks(text: str) -> list[int]:
    """Of "1,2,4,..,64": what is left out goes on as the two before it say, by their ratio."""
    accepted = f"rank counts from 1 to {MAX_RANKS:,}, ascending, such as 1,2,4,8 or 1,2,4,..,1024"
    found: list[int] = []
    words = [word.strip() for word in text.split(",")]
    for i, word in enumerate(words):
        if word in ("..", "...") and len(found) >= 2 and i == len(words) - 2 and is_count(words[-1]):
            ratio = found[-1] / found[-2]
            while ratio > 1 and round(found[-1] * ratio) < int(words[-1]) <= MAX_RANKS:
                found.append(round(found[-1] * ratio))
        elif is_count(word) and 1 <= int(word) <= MAX_RANKS and (not found or int(word) > found[-1]):
            found.append(int(word))
        else:
            raise ConfigError("--ranks", f'found "{word}" in "{text}"', accepted)
    return found


def _reductions(text: str) -> dict[int, float]:
    accepted = "two or more of N=TIME with N from 2, such as 2=0.9us,64=5us"
    found: dict[int, float] = {}
    for word in text.split(","):
        ranks, _, time = word.partition("=")
        if not is_count(ranks.strip()) or not 2 <= int(ranks) <= MAX_RANKS:
            raise ConfigError("--reduction", f'found "{word}" in "{text}"', accepted)
        found[int(ranks)] = _duration_ns("--reduction", time)
    if len(found) < 2:
        raise ConfigError("--reduction", f'found "{text}"', accepted)
    return found


def _duration_ns(where: str, text: str) -> float:
    try:
        found = parse_duration_ps(text.strip())
    except QuantityError as error:
        raise ConfigError(where, f'found "{text}"', 'a duration with a unit, such as "1.5us"') from error
    if found == 0:
        raise ConfigError(where, f'found "{text}"', "a duration above zero")
    return found / 1000
