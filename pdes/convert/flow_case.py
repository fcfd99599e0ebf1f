"""A list of flows as SimGrid's and other flow-level programs take it: a CSV with start_s,src,dst,bytes[,agg,core].

Hosts are those of a fat-tree. A flow goes from its host to the edge switch, by the pod's aggregation switch `agg` to
core `agg` * k/2 + `core`, and down again over the other pod's `agg`; within a pod over `agg` alone, under one edge
switch over that one. Who has neither agg nor core leaves the way to ECMP.
"""

import re
from pathlib import Path
from typing import NamedTuple

from pdes.errors import ConfigError
from pdes.files import missing, read_text, require_file, why_unreadable
from pdes.units import MAX_DIGITS, PS_PER_S, exact_number, shown

COLUMNS, CHOICES = ("start_s", "src", "dst", "bytes"), ("agg", "core")
ACCEPTED = f"a CSV with a header line and the columns {', '.join(COLUMNS)}, and optionally {' and '.join(CHOICES)}"
MAX_K = 160  # a million hosts
MAX_HOST, MAX_CHOICE = MAX_K**3 // 4 - 1, MAX_K // 2 - 1
LATEST_PS = MOST_BYTES = 2**61
HEADER_CHARS = 4096
_DECIMAL = re.compile(r"([0-9]{1,6})(?:\.([0-9]{0,12}))?")  # what there is nearly always; `exact_number` has the rest
_N_DECIMAL = 12  # of a second: picoseconds


class Flow(NamedTuple):
    """One line. agg, core: 0 where the file has none."""

    line: int
    start_ps: int
    src: int
    dst: int
    size_bytes: int
    agg: int
    core: int


class FlowCase(NamedTuple):
    """A file of flows, in its order. has_ways: it says agg and core."""

    path: Path
    flows: list[Flow]
    has_ways: bool


def find_case(source: Path) -> Path:
    """The file itself, or the one of a folder that has the columns. ConfigError: there is none, or several."""
    if not source.is_dir():
        if not source.is_file():
            raise ConfigError(str(source), missing(source), f"{ACCEPTED}; or a folder with one")
        return source
    found = [path for path in sorted(source.glob("*.csv")) if not set(COLUMNS) - set(_header(path))]
    if len(found) != 1:
        names = ", ".join(path.name for path in found)
        what = f"{len(found)} files have the columns: {names}" if found else "no file has the columns"
        raise ConfigError(str(source), what, f"a folder with one such file: {ACCEPTED}")
    return found[0]


def _header(path: Path) -> list[str]:
    try:
        with require_file(path).open(encoding="utf-8-sig", errors="replace") as file:
            return [word.strip() for word in file.readline(HEADER_CHARS).split(",")]
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", ACCEPTED) from error


def read_case(path: Path) -> FlowCase:
    """All flows. ConfigError names file and line. Columns of other names are passed over."""
    try:
        lines = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"cannot be read: {why_unreadable(error)}", ACCEPTED) from error
    names = [word.strip() for word in lines[0].split(",")] if lines else []
    chosen = (*COLUMNS, *(name for name in CHOICES if set(CHOICES) & set(names)))
    wrong = [f"no column {name}" for name in chosen if name not in names]
    wrong += [f"{names.count(name)} columns {name}" for name in chosen if names.count(name) > 1]
    if wrong:
        raise ConfigError(f"{path}, line 1", f"{wrong[0]} in {shown(','.join(names))}", ACCEPTED)
    at = [names.index(name) for name in chosen]
    flows = []
    for number, line in enumerate(lines[1:], start=2):
        words = line.split(",")
        if len(words) != len(names):
            if not line.strip():
                continue
            raise ConfigError(f"{path}, line {number}", f"{len(words)} columns", f"{len(names)}, as in the header")
        flows.append(_flow([words[k].strip() for k in at], number, path))
    if not flows:
        raise ConfigError(f"{path}, end of file", "no flow", "at least one flow")
    return FlowCase(path, flows, len(chosen) > len(COLUMNS))


def _flow(words: list[str], number: int, path: Path) -> Flow:
    """words: of COLUMNS, and of CHOICES if the file has them."""
    where = f"{path}, line {number}"
    src, dst = (_whole(words[i], where, COLUMNS[i], 0, MAX_HOST) for i in (1, 2))
    size_bytes = _whole(words[3], where, COLUMNS[3], 1, MOST_BYTES)
    agg, core = (_whole(word, where, name, 0, MAX_CHOICE) for word, name in zip(words[4:], CHOICES, strict=True)) if (
        len(words) > len(COLUMNS)) else (0, 0)  # fmt: skip
    if src == dst:
        raise ConfigError(where, f"a flow from {src} to itself", "two different hosts")
    return Flow(number, _start_ps(words[0], where), src, dst, size_bytes, agg, core)


def _whole(word: str, where: str, what: str, least: int, most: int) -> int:
    """A whole number. ConfigError: it is none, or out of its range."""
    digits = word[1:] if word.startswith("-") else word
    if digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS and least <= int(word) <= most:
        return int(word)
    raise ConfigError(where, f"{what} {shown(word)}", f"a whole number from {least} to {most}")


def _start_ps(word: str, where: str) -> int:
    """Exactly. ConfigError: no number of seconds, not whole picoseconds, or out of the range."""
    match = _DECIMAL.fullmatch(word)
    if match is not None:
        return int(match[1]) * PS_PER_S + int((match[2] or "").ljust(_N_DECIMAL, "0"))
    try:
        start_ps = exact_number(word) * PS_PER_S
    except ValueError:
        raise ConfigError(where, f"start_s {shown(word)}", "seconds, a decimal number") from None
    if start_ps.denominator != 1 or not 0 <= start_ps <= LATEST_PS:
        is_fine = start_ps.denominator == 1
        accepted = f"0 to {LATEST_PS / PS_PER_S:.0f} s" if is_fine else "whole picoseconds: 12 places after the point"
        raise ConfigError(where, f"start_s {shown(word)}", accepted)
    return start_ps.numerator
