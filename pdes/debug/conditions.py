"""The language of --break: `queue(leaf3:2) > 1MB and flow(12).sent >= 4MB or time > 2ms`.

    condition   one or more of `and`, `or`, `not`, parentheses and comparisons
    comparison  VALUE < VALUE, also <=, >, >=, ==, !=; a VALUE alone: it is not 0
    VALUE       a quantity of the network, or a number with its unit

It is parsed, never evaluated as Python; what quantities there are is in `quantities`.
"""

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pdes.errors import ConfigError
from pdes.units import QuantityError, is_count, parse_duration_ps, parse_rate_bps, parse_size_bytes, shown

WHERE = "--break"
MOST_CHARS, MOST_OPEN = 4000, 100
OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
DURATION, SIZE, RATE, COUNT = "a duration", "a size", "a rate", "a number"
UNITS = {DURATION: "1.2ms", SIZE: "1MB", RATE: "50Gbps", COUNT: "3"}
INNER_UNITS = {DURATION: " ps", SIZE: " B", RATE: " bit/s", COUNT: ""}
_PARSERS = {DURATION: parse_duration_ps, SIZE: parse_size_bytes, RATE: parse_rate_bps}
QUANTITIES: dict[str, tuple[str, str, str]] = {  # what may be asked: of what, its dimension, what it means
    "time": ("", DURATION, "simulated time: everything before it has happened"),
    "flows": ("", COUNT, "queue pairs with bytes to send or to be acknowledged"),
    "queue": ("port", SIZE, "data that waits at a port"),
    "max_queue": ("port", SIZE, "the most that has waited there"),
    "tx": ("port", SIZE, "what a port has sent, headers and ACKs included"),
    "paused": ("port", COUNT, "priorities of a port that PFC has paused"),
    "drops": ("port", COUNT, "packets dropped at a port or lost on its link"),
    "buffer": ("switch", SIZE, "what a switch uses of its shared buffer"),
    "flow.size": ("flow", SIZE, "payload of a flow that has been posted"),
    "flow.sent": ("flow", SIZE, "payload that has left, resends not counted again"),
    "flow.acked": ("flow", SIZE, "payload that is acknowledged"),
    "flow.in_flight": ("flow", SIZE, "payload sent and not acknowledged"),
    "flow.rate": ("flow", RATE, "what its congestion control allows, while it is under way"),
    "flow.window": ("flow", SIZE, "its window, while it is under way and has one"),
    "flow.started": ("flow", COUNT, "1 once it has been posted"),
    "flow.finished": ("flow", COUNT, "1 once all of it is acknowledged"),
}
_TOKEN = re.compile(
    r"\s*(?:(?P<quantity>(?!(?:and|or|not)\b)[A-Za-z_]+)\s*\(\s*(?P<entity>[^()]*?)\s*\)(?:\s*\.\s*(?P<field>[A-Za-z_]+))?"
    r"|(?P<number>[0-9][0-9_.]*(?:[eE][+-]?[0-9]+)?(?:\s?(?!(?:and|or)\b)[A-Za-z/]+)?)|(?P<word>[A-Za-z_]+)|(?P<sign><=|>=|==|!=|[<>()]))"
)


@dataclass(frozen=True)
class Quantity:
    """Something that the network is asked for. name: a key of QUANTITIES; entity: as written, "" if of none."""

    name: str
    entity: str

    @property
    def dimension(self) -> str:
        return QUANTITIES[self.name][1]

    def __str__(self) -> str:
        function, _, field = self.name.partition(".")
        return f"{function}({self.entity})" + (f".{field}" if field else "") if self.entity else self.name


@dataclass(frozen=True)
class Number:
    """A number in the inner unit of its dimension: ps, bytes, bit/s, or none."""

    value: int
    dimension: str


Value = Quantity | Number


@dataclass(frozen=True)
class Comparison:
    """A comparison of two values of one dimension."""

    left: Value
    sign: str
    right: Value


@dataclass(frozen=True)
class Connection:
    """name: "and", "or", or "not" of one part."""

    name: str
    parts: tuple["Condition", ...]


Condition = Comparison | Connection


def quantities_of(condition: Condition) -> Iterator[Quantity]:
    """All that it asks for, in the order of its text."""
    if isinstance(condition, Connection):
        for part in condition.parts:
            yield from quantities_of(part)
        return
    yield from (value for value in (condition.left, condition.right) if isinstance(value, Quantity))


def holds(condition: Condition, values: dict[Quantity, int]) -> bool:
    """Whether it is so. values: of all its quantities."""
    if isinstance(condition, Comparison):
        left, right = (values[v] if isinstance(v, Quantity) else v.value for v in (condition.left, condition.right))
        return OPERATORS[condition.sign](left, right)
    found = [holds(part, values) for part in condition.parts]
    return not found[0] if condition.name == "not" else all(found) if condition.name == "and" else any(found)


def parse_condition(text: str) -> Condition:
    """Parse it. Raises ConfigError that says what was found and what is accepted."""
    n_open = text.count("(") + text.count("not")
    if len(text) > MOST_CHARS or n_open > MOST_OPEN:
        found = f"has {len(text):,} characters, and {n_open:,} times ( or not"
        raise ConfigError(f"{WHERE} {shown(text)}", found, f"at most {MOST_CHARS:,} and {MOST_OPEN}")
    return _Parser(text).whole()


class _Parser:
    """Recursive descent over the tokens; `or` binds least, then `and`, then `not`."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens, self._at = text, [], 0
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._fault(f"found {shown(text[at:].strip())}", "Accepted: a quantity, a number, a comparison")
            self._tokens.append(match)
            at = match.end()

    def whole(self) -> Condition:
        if not self._tokens:
            raise self._fault("is empty", "Accepted: a condition, such as queue(leaf3:2) > 1MB")
        found = self._joined("or")
        if self._at < len(self._tokens):
            raise self._fault(f"found {shown(self._rest())}", "Accepted: and, or, or the end")
        return found

    def _joined(self, name: str) -> Condition:
        part = (lambda: self._joined("and")) if name == "or" else self._negated
        parts = [part()]
        while self._takes("word", name):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Connection(name, tuple(parts))

    def _negated(self) -> Condition:
        if self._takes("word", "not"):
            return Connection("not", (self._negated(),))
        if self._takes("sign", "("):
            found = self._joined("or")
            if not self._takes("sign", ")"):
                raise self._fault(f"found {shown(self._rest())}", 'Accepted: ")"')
            return found
        return self._comparison()

    def _comparison(self) -> Comparison:
        left = self._value(None)
        sign = self._peek("sign")
        if sign not in OPERATORS:
            if isinstance(left, Quantity) and left.dimension == COUNT:
                return Comparison(left, "!=", Number(0, COUNT))
            raise self._fault(f"found {shown(self._rest())}", f"Accepted: {', '.join(OPERATORS)} and a value")
        self._at += 1
        right = self._value(left.dimension if isinstance(left, Quantity) else None)
        if isinstance(left, Number) and isinstance(right, Quantity):
            self._at -= 3
            left = self._value(right.dimension)
            self._at += 2
        if left.dimension != right.dimension:
            found = f"{_shown(left)} is {left.dimension}, {_shown(right)} is {right.dimension}"
            raise self._fault(found, "Accepted: two of a kind")
        return Comparison(left, str(sign), right)

    def _value(self, dimension: str | None) -> Value:
        """A value is one token. dimension: of a number, if known."""
        if self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token["quantity"] or (token["word"] and token["word"] not in ("and", "or", "not")):
                return self._quantity(token)
            if token["number"]:
                return self._number(token["number"], dimension)
            self._at -= 1
        raise self._fault(f"found {shown(self._rest())}", "Accepted: a quantity, or a number with its unit")

    def _quantity(self, token: re.Match[str]) -> Quantity:
        name = token["word"] or token["quantity"]
        name = f"{name}.{token['field']}" if token["field"] else name
        if name not in QUANTITIES or bool(QUANTITIES[name][0]) != bool(token["entity"]):
            raise self._fault(f"found {shown(token[0].strip())}", f"Accepted: {quantity_list()}")
        return Quantity(name, token["entity"] or "")

    def _number(self, text: str, dimension: str | None) -> Number:
        if text == "0":
            return Number(0, dimension or COUNT)
        for kind, parse in _PARSERS.items():
            if dimension in (None, kind):
                try:
                    return Number(parse(text), kind)
                except QuantityError as error:
                    if dimension is not None:
                        raise self._fault(error.found, error.accepted) from error
        if is_count(text):
            return Number(int(text), COUNT)
        raise self._fault(
            f"found {shown(text)}", f"Accepted: {dimension or COUNT}, such as {UNITS[dimension or COUNT]}"
        )

    def _peek(self, kind: str) -> str | None:
        return self._tokens[self._at][kind] if self._at < len(self._tokens) else None

    def _takes(self, kind: str, text: str) -> bool:
        if self._peek(kind) != text:
            return False
        self._at += 1
        return True

    def _rest(self) -> str:
        return self._text[self._tokens[self._at].start() :].strip() if self._at < len(self._tokens) else "the end"

    def _fault(self, found: str, accepted: str) -> ConfigError:
        return ConfigError(f"{WHERE} {shown(self._text)}", found, accepted)


def quantity_list() -> str:
    """All that there is, as it is written."""
    return ", ".join(str(Quantity(name, kind.upper())) for name, (kind, _, _) in QUANTITIES.items())


def _shown(value: Value) -> str:
    return str(value) if isinstance(value, Quantity) else f"{value.value}"
