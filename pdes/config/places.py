"""On which line of a TOML file a key is: TOML's parser does not say. Reads headers and begins of lines."""

import re

Path = tuple[str | int, ...]
_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")
_MESSAGE_KEY = re.compile(rf"\[\[?({_DOTTED})\]\]?(?: (\d+))?:? ?({_DOTTED})?.*")


def lines_of(text: str) -> dict[Path, int]:
    """The line, from 1, of every table and key that begins one; positions in lists of tables are numbers from 0."""
    found: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        header, key = _HEADER.fullmatch(line), _KEY.match(line)
        if header is not None:
            table = _with_counts(_parts(header[2]), counts)
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                found.setdefault(table, number)
                table = (*table, counts[table])
            found.setdefault(table, number)
        elif key is not None:
            found.setdefault((*table, *_parts(key[1])), number)
    return found


def line_of(path: Path, lines: dict[Path, int]) -> int | None:
    """Of a key, or of the table or the list that it is in or would be in; None: the file has none of it."""
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return lines[path[:end]]
        inside = [number for place, number in lines.items() if place[:end] == path[:end]]
        if inside:
            return min(inside)
    return None


def path_of(text: str) -> Path | None:
    """The path of "[network] window" or "[[workload.collective]] 2: size", as errors write it, else None."""
    match = _MESSAGE_KEY.fullmatch(text)
    if match is None:
        return None
    number = () if match[2] is None else (int(match[2]) - 1,)
    return (*_parts(match[1]), *number, *(_parts(match[3]) if match[3] else ()))


def _parts(dotted: str) -> Path:
    return tuple(part.strip("\"'") for part in re.findall(_NAME, dotted))


def _with_counts(names: Path, counts: dict[Path, int]) -> Path:
    """A header's names, with the position of the newest table where one of them is a list."""
    path: Path = ()
    for name in names[:-1]:
        path = (*path, name)
        path = (*path, counts[path]) if path in counts else path
    return (*path, names[-1])
