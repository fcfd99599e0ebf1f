"""Values of [cluster]'s keys: long durations, and distributions of them."""

import re
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from pdes.config.tables.fields import FieldError, Meaning, Table, quantity
from pdes.units import QuantityError, parse_long_duration_us, shown

MOST_CHARS = 10_000
_RANGE = re.compile(r"\s*([0-9]{1,6})\s*(?:-\s*([0-9]{1,6})\s*)?", re.ASCII)


def _positive(text: object) -> int:
    value = parse_long_duration_us(text)
    if value == 0:
        raise FieldError(f"found {shown(text)}", "Accepted: a duration above zero")
    return value


def _optional(text: object) -> int | None:
    return None if text is None else _positive(text)


def _word_or(words: tuple[str, ...], text: object) -> str | int:
    if isinstance(text, str) and text in words:
        return text
    try:
        return _positive(text)
    except (FieldError, QuantityError) as error:
        choice = ", ".join(shown(word) for word in words)
        accepted = error.accepted.removeprefix("Accepted: ")
        raise FieldError(error.found, f"Accepted: {choice}, or {accepted}") from error


def _model_size(value: object) -> object:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e18:
        return float(value)
    accepted = 'Accepted: how many parameters, above 0, or the name of a model, such as "llama3-405b"'
    raise FieldError(f"found {shown(value)}", accepted)


def _numbers(text: object) -> tuple[int, ...] | None:
    """Of "0-15, 32": all of them, each once."""
    if text is None:
        return None
    accepted = FieldError(f"found {shown(text)}", 'Accepted: numbers and ranges of them, such as "0-15, 32"')
    if not isinstance(text, str) or len(text) > MOST_CHARS:
        raise accepted
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise accepted
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first:
            raise accepted
        found.update(range(first, last + 1))
    return tuple(sorted(found))


Numbers = Annotated[tuple[int, ...] | None, BeforeValidator(_numbers)]
Long = Annotated[int, BeforeValidator(parse_long_duration_us)]
PositiveLong = Annotated[int, BeforeValidator(_positive)]
OptionalLong = Annotated[int | None, BeforeValidator(_optional)]
ModelSize = Annotated[float | str, BeforeValidator(_model_size)]
CheckpointInterval = Annotated[str | int, BeforeValidator(partial(_word_or, ("off", "young", "daly")))]

NEEDS = {
    "fixed": ("mean_us",),
    "exponential": ("mean_us",),
    "weibull": ("mean_us", "shape"),
    "lognormal": ("median_us", "sigma"),
    "empirical": ("file",),
}
KEYS = {"mean_us": "mean", "median_us": "median"}


class Duration(Table):
    """A duration that is drawn. Its short form is text: a fixed one."""

    distribution: Literal["fixed", "exponential", "weibull", "lognormal", "empirical"] = "fixed"
    mean_us: OptionalLong = quantity(None, "mean")
    median_us: OptionalLong = quantity(None, "median")
    shape: Annotated[float, Field(gt=0.05, le=50)] | None = None
    sigma: Annotated[float, Field(ge=0, le=10)] | None = None
    file: Annotated[str, Field(min_length=1)] | None = None
    MEANING: ClassVar[Meaning] = {
        "distribution": "how it is drawn",
        "mean_us": "of fixed, exponential and weibull",
        "median_us": "of lognormal",
        "shape": "of weibull: below 1 failures come in groups, above 1 things wear out",
        "sigma": "of lognormal: the standard deviation of the logarithm",
        "file": "of empirical: a text file with one duration in seconds a line",
    }

    @model_validator(mode="after")
    def _check(self) -> "Duration":
        needs = NEEDS[self.distribution]
        for name in ("mean_us", "median_us", "shape", "sigma", "file"):
            key, is_given = KEYS.get(name, name), getattr(self, name) is not None
            if is_given != (name in needs):
                wanted = ", ".join(KEYS.get(need) or need for need in needs)
                found = f"{key} is given" if is_given else f"{key} is missing"
                raise FieldError(found, f'Accepted with distribution = "{self.distribution}": {wanted}')
        return self


def _drawn(zero: bool, value: object) -> Any:
    """A table, or text for a fixed duration."""
    if not isinstance(value, str):
        return value
    parse_long_duration_us(value) if zero else _positive(value)
    return {"distribution": "fixed", "mean": value} if parse_long_duration_us(value) else None


Drawn = Annotated[Duration, BeforeValidator(partial(_drawn, False))]
DrawnFromZero = Annotated[Duration | None, BeforeValidator(partial(_drawn, True))]
