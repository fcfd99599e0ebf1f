"""Building blocks of the schema: field types that turn text with a unit into an int, and the base of every table.

A field's Python name carries its unit (`link_rate_bps`), its key in the file does not (`link_rate`): the alias.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from pdes.errors import suggestion
from pdes.units import parse_duration_ps, parse_flops, parse_rate_bps, parse_size_bytes, shown


class FieldError(ValueError):
    """A value that a field refuses: what was found and what is accepted. Becomes a `Fault` of the report."""

    def __init__(self, found: str, accepted: str) -> None:
        self.found, self.accepted = found, accepted
        super().__init__(f"{found}. {accepted}")


class Fault(NamedTuple):
    """One thing wrong with a config. path: table and keys; found: what is there; accepted: what would be right."""

    path: tuple[str | int, ...]
    found: str
    accepted: str = ""


Meaning = dict[str, str]
"""What each key of a table means, by the name of its attribute: for `pdes-sim explain` and for documentation."""


class Table(BaseModel):
    """Base of all tables: immutable, no unknown keys, values of exactly the type asked for.

    MEANING: of the fields that the class itself has, and of inherited ones whose meaning is another here. They become
    the fields' descriptions.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, validate_default=True, validate_by_name=False, allow_inf_nan=False
    )
    MEANING: ClassVar[Meaning] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Give every field its description."""
        for base in reversed(cls.__mro__):
            for name, text in base.__dict__.get("MEANING", {}).items():
                if name in cls.model_fields:
                    cls.model_fields[name].description = text


def quantity(default: str | None, alias: str) -> Any:
    """A field with the key `alias` in the file and a default written as there; None: no value unless given."""
    return Field(default=default, alias=alias)


def same_as(other: str, alias: str) -> Any:
    """A field whose default is the parsed value of the field `other`, declared above it."""
    extra: dict[str, Any] = {"same_as": other}  # for `explain`
    return Field(
        default_factory=lambda data: data.get(other, 0), validate_default=False, alias=alias, json_schema_extra=extra
    )


def _positive(parse: Callable[[object], int], text: object) -> int:
    value = parse(text)
    if value == 0:
        raise FieldError(f"found {shown(text)}", "Accepted: a value above zero")
    return value


def _word_or(words: tuple[str, ...], parse: Callable[[object], int], text: object) -> object:
    """One of `words` as it is, else a positive quantity; the error names both possibilities."""
    if isinstance(text, str) and text in words:
        return text
    try:
        return _positive(parse, text)
    except (FieldError, ValueError) as error:
        accepted = getattr(error, "accepted", str(error)).removeprefix("Accepted: ")
        choice = " or ".join(shown(word) for word in words)
        raise FieldError(getattr(error, "found", ""), f"Accepted: {choice}, or {accepted}") from error


def _auto_or_any(parse: Callable[[object], int], text: object) -> int | None:
    """As `_auto_or`, but zero is a quantity too."""
    return 0 if text is not None and _is_zero(parse, text) else _auto_or(parse, text)


def _is_zero(parse: Callable[[object], int], text: object) -> bool:
    try:
        return parse(text) == 0
    except ValueError:
        return False


def _auto_or_number(most: float, value: object) -> float | None:
    """None for "auto" (and for an absent key), else a number above 0 and up to `most`."""
    if value is None or value == "auto":
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= most:
        return float(value)
    raise FieldError(f"found {shown(value)}", f'Accepted: "auto", or a number above 0, at most {most:g}')


def _auto_or_count(least: int, most: int, value: object) -> int | None:
    """None for "auto" (and for an absent key), else a whole number within bounds."""
    if value is None or value == "auto":
        return None
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise FieldError(f"found {shown(value)}", f'Accepted: "auto", or a whole number, {least} to {most:,}')


def _auto_or_bool(value: object) -> bool | None:
    """None for "auto" (and for an absent key), else true or false."""
    if value is None or value == "auto":
        return None
    if isinstance(value, bool):
        return value
    raise FieldError(f"found {shown(value)}", 'Accepted: "auto", true or false')


def _auto_or(parse: Callable[[object], int], text: object) -> int | None:
    """None for "auto" (and for an absent key), else a positive quantity."""
    if text is None:
        return None
    value = _word_or(("auto",), parse, text)
    return value if isinstance(value, int) else None


def _off_or(parse: Callable[[object], int], text: object) -> int | None:
    """None for "off" (and for an absent key), else a positive quantity."""
    value = None if text is None else _word_or(("off",), parse, text)
    return value if isinstance(value, int) else None


def _one_of(available: tuple[str, ...], value: object) -> str:
    if isinstance(value, str) and value in available:
        return value
    choice = ", ".join(shown(word) for word in available)
    raise FieldError(
        f"{shown(value)} is not available in this version", f"Accepted: {choice}{suggestion(value, available)}"
    )


def only(*available: str) -> BeforeValidator:
    """Accept only what this version has; the text says so, as others are planned."""
    return BeforeValidator(partial(_one_of, available))


def _optional(parse: Callable[[object], int], text: object) -> int | None:
    return None if text is None else _positive(parse, text)


Duration = Annotated[int, BeforeValidator(parse_duration_ps)]
PositiveDuration = Annotated[int, BeforeValidator(partial(_positive, parse_duration_ps))]
OptionalDuration = Annotated[int | None, BeforeValidator(partial(_optional, parse_duration_ps))]
AutoDuration = Annotated[int | None, BeforeValidator(partial(_auto_or, parse_duration_ps))]
OffDuration = Annotated[int | None, BeforeValidator(partial(_off_or, parse_duration_ps))]
Size = Annotated[int, BeforeValidator(partial(_positive, parse_size_bytes))]
AutoSize = Annotated[int | None, BeforeValidator(partial(_auto_or, parse_size_bytes))]
SizeFromZero = Annotated[int, BeforeValidator(parse_size_bytes)]
AutoSizeFromZero = Annotated[int | None, BeforeValidator(partial(_auto_or_any, parse_size_bytes))]
MemoryLimit = Annotated[str | int, BeforeValidator(partial(_word_or, ("auto", "off"), parse_size_bytes))]
WINDOW_RULES = ("auto", "max-bdp", "pair-bdp", "none")
WindowSize = Annotated[str | int, BeforeValidator(partial(_word_or, WINDOW_RULES, parse_size_bytes))]
CheckInterval = Annotated[str | int, BeforeValidator(partial(_word_or, ("auto", "off"), parse_duration_ps))]
BufferSize = Annotated[str | int, BeforeValidator(partial(_word_or, ("unlimited", "auto"), parse_size_bytes))]
AutoProbability = Annotated[float | None, BeforeValidator(partial(_auto_or_number, 1))]
AutoBool = Annotated[bool | None, BeforeValidator(_auto_or_bool)]
Rate = Annotated[int, BeforeValidator(partial(_positive, parse_rate_bps))]
AutoShare = Annotated[float | None, BeforeValidator(partial(_auto_or_number, 1024))]
Flops = Annotated[int, BeforeValidator(partial(_positive, parse_flops))]
OptionalRate = Annotated[int | None, BeforeValidator(partial(_optional, parse_rate_bps))]
AutoRate = Annotated[int | None, BeforeValidator(partial(_auto_or, parse_rate_bps))]
AutoSamples = Annotated[int | None, BeforeValidator(partial(_auto_or_count, 2, 10_000))]
Count = Annotated[int, Field(ge=1)]
