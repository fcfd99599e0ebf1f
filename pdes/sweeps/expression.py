"""What must hold of a point: an expression over keys of the config. Nothing in it can do anything."""

import ast
import operator
from collections.abc import Callable
from typing import Any

from pdes.errors import ConfigError
from pdes.units import shown

ACCEPTED = "Accepted: keys, numbers, words in quotes, + - * / // % **, comparisons, and, or, not, in, min, max, abs"
LONGEST, MOST_POWER = 2000, 64
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}


class Expression:
    """Parsed. where: in an error."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        try:
            if len(text) > LONGEST:
                raise ValueError("too long")
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ConfigError(where, f"found {shown(text)}, which is no expression", ACCEPTED) from error

    def holds(self, value_of: Callable[[str], Any]) -> bool:
        """value_of: of a key, KeyError if there is none. ConfigError: it cannot be worked out."""
        try:
            return bool(self._value(self._tree, value_of))
        except KeyError as error:
            found = f"{shown(self.text)} names {error.args[0]}, which neither an axis nor the config has"
            raise ConfigError(self.where, found, "Accepted: keys that have a value there") from error
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise ConfigError(self.where, f"{shown(self.text)}: {error}", ACCEPTED) from error

    def _value(self, node: ast.expr, value_of: Callable[[str], Any]) -> Any:
        match node:
            case ast.Constant(value=int() | float() | str() | bool()):
                return node.value
            case ast.Name() | ast.Attribute():
                return value_of(_dotted(node))
            case ast.BoolOp():
                values = (self._value(each, value_of) for each in node.values)
                return all(values) if isinstance(node.op, ast.And) else any(values)
            case ast.UnaryOp(op=ast.Not()):
                return not self._value(node.operand, value_of)
            case ast.UnaryOp(op=ast.USub()):
                return -self._value(node.operand, value_of)
            case ast.BinOp() if type(node.op) in _BINARY:
                left, right = self._value(node.left, value_of), self._value(node.right, value_of)
                return _BINARY[type(node.op)](*_numbers(left, right, isinstance(node.op, ast.Pow)))
            case ast.Compare():
                left = self._value(node.left, value_of)
                for kind, other in zip(node.ops, node.comparators, strict=True):
                    right = self._value(other, value_of)
                    if type(kind) not in _COMPARE or not _COMPARE[type(kind)](left, right):
                        return False
                    left = right
                return True
            case ast.List() | ast.Tuple():
                return [self._value(each, value_of) for each in node.elts]
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS and node.args:
                return _FUNCTIONS[name](*(self._value(each, value_of) for each in node.args))
        raise ValueError(f"{ast.unparse(node)} is not accepted here")


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Name):
        return node.id
    raise ValueError(f"{ast.unparse(node)} is no key")


def _numbers(left: Any, right: Any, is_power: bool) -> tuple[Any, Any]:
    for value in (left, right):
        if not isinstance(value, int | float):
            raise TypeError(f"{shown(value)} is no number")
    if is_power and abs(right) > MOST_POWER:
        raise ValueError(f"a power of {right} is too large")
    return left, right
