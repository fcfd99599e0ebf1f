"""Every error the simulator raises on purpose. One root, `SimError`, so that callers can catch all of them.

The text of an error says what was found, where, what is accepted and what to change; `pdes.cli` prints it without
a traceback.
"""

import re
from collections.abc import Iterable

_LONG_WORD = re.compile(r"\S{401,}")  # longer than any name of a file that is likely
LONGEST_LINE = 4000


class SimError(Exception):
    """Root of all errors that the simulator raises on purpose."""

    exit_status = 1


class ConfigError(SimError):
    """Bad input from a user: a config, topology or flow file. Exit status 2 (design R10).

    where: file, and key or line. found: the offending value. accepted: what would have been right.
    """

    exit_status = 2

    def __init__(self, where: str, found: str, accepted: str = "") -> None:
        self.where, self.found, self.accepted = shortened(where), shortened(found), accepted
        text = f"{self.where}: {self.found}"
        if accepted and not accepted[0].isupper():
            accepted = f"Accepted: {accepted}"
        super().__init__(f"{text}. {accepted}" if accepted else text)


def shortened(text: str) -> str:
    """Text of which no word and no line is so long that it fills a terminal: input is quoted in messages."""
    short = _LONG_WORD.sub(lambda match: f"{match[0][:57]}...{match[0][-20:]}", text)
    return "\n".join(
        line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}... ({len(line):,} characters)"
        for line in short.split("\n")
    )


def closest(word: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """The known name that was meant: one that differs by capitals and hyphens alone, else the one most alike."""
    import difflib  # takes a while, and only where something is wrong

    names = list(known)
    same = [name for name in names if _plain(name) == _plain(word)]
    close = same or difflib.get_close_matches(word[:200], names, n=1, cutoff=cutoff)
    return close[0] if close else None


def suggestion(word: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """ ". Did you mean ...?", to come behind what is accepted; "" if nothing is alike."""
    name = closest(word, known, cutoff) if isinstance(word, str) else None
    return f'. Did you mean "{name}"?' if name is not None else ""


def _plain(name: str) -> str:
    return re.sub(r"[-_ .]", "", name).lower()


class CapacityError(SimError):
    """A fixed-size buffer was too small and could not be grown."""


class CausalityError(SimError):
    """An event would have run before one that it depends on: an error of the simulator itself."""


class MachineError(SimError):
    """The machine has refused something that the run needs: memory, or a disk."""
