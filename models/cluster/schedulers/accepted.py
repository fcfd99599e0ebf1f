"""What the options of a scheduler may be, beyond the types of their defaults; all are checked before a run begins.

Each says whether it accepts a value, and in words what it accepts.
"""

from typing import Any, NamedTuple, Protocol

MOST = 10**6


class Accepts(Protocol):
    """What an option may be."""

    def accepts(self, value: Any) -> bool:
        """Whether it may be this, whose type may be any."""
        ...

    def words(self) -> str:
        """For a message, behind "Accepted: "."""
        ...


class Number(NamedTuple):
    """From least to most, both among them, never one that is no number. without_zero: not 0. is_whole: no fractions."""

    least: float
    most: float = MOST
    is_whole: bool = False
    without_zero: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether it is such a number; booleans are none."""
        is_number = type(value) is int or (type(value) is float and not self.is_whole)
        return is_number and self.least <= value <= self.most and not (self.without_zero and value == 0)

    def words(self) -> str:
        """The range."""
        kind, rest = "whole numbers" if self.is_whole else "numbers", ", without 0" if self.without_zero else ""
        return f"{kind} from {self.least:,} to {self.most:,}{rest}"


class OneOf(NamedTuple):
    """Words."""

    names: tuple[str, ...]

    def accepts(self, value: Any) -> bool:
        """Whether it is one of them."""
        return value in self.names

    def words(self) -> str:
        """All of them."""
        return ", ".join(f'"{name}"' for name in self.names)


class Ascending(NamedTuple):
    """A list of numbers, each above the one before."""

    of: Number

    def accepts(self, value: Any) -> bool:
        """Whether it is such a list; it may be empty."""
        if type(value) is not list or not all(map(self.of.accepts, value)):
            return False
        return all(value[i] < value[i + 1] for i in range(len(value) - 1))

    def words(self) -> str:
        """What its numbers are."""
        return f"a list of {self.of.words()}, each above the one before"


class ByName(NamedTuple):
    """A table of names and numbers."""

    of: Number

    def accepts(self, value: Any) -> bool:
        """Whether all are such numbers; it may be empty."""
        return type(value) is dict and all(map(self.of.accepts, value.values()))

    def words(self) -> str:
        """What its numbers are."""
        return f"a table of {self.of.words()}, by name"


MINUTES = Number(0.01)
"""Of a round or a turn: shorter ones would not end a run in any time."""
