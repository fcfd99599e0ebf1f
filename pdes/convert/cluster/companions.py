"""Files that lie beside a trace and belong to it, such as its list of machines: found by how they begin."""

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from pdes.convert.cluster.lines import Head, read_head
from pdes.errors import ConfigError

MOST_FILES = 200  # of a folder that are looked at


def files_of(folder: Path) -> Iterator[Path]:
    """Its plain files, by name. ConfigError: it cannot be read."""
    try:
        names = sorted(folder.iterdir())
    except OSError as error:
        raise ConfigError(str(folder), f"cannot be read: {error.strerror}", "a folder that can be read") from error
    n_seen = 0
    for path in names:
        try:
            is_plain = stat.S_ISREG(path.stat().st_mode) and not path.name.startswith(".")
        except OSError:
            continue
        if is_plain and n_seen < MOST_FILES:
            n_seen += 1
            yield path


def beside(path: Path, matches: Callable[[Head], bool]) -> Path | None:
    """The first other file of the folder that begins so."""
    for other in files_of(path.parent):
        try:
            if other.name != path.name and matches(read_head(other)):
                return other
        except ConfigError:  # one that may not be read is not ours
            continue
    return None
