"""What Numba finds out again for every function that it compiles, kept from the first time.

Most of what compiling takes is Python's: which type an operator gives for types that it has been asked for a thousand
times, which variables a statement has, whether two sets of options are the same. All this is
what it is without. The methods that are replaced are not public: `tests/pdes/engine/test_remembered.py` sees when one
of them is another.
"""

from typing import Any

from numba.core import errors, ir, types
from numba.core.targetconfig import ConfigStack, TargetConfig

_errors: Any = errors
_found: dict[tuple[Any, ...], tuple[Any, Any]] = {}
_choices: list[dict[str, Any]] = []  # of options, a few: not all of their values can be hashed
_hashes: dict[type[TargetConfig], int] = {}
_get_call_type = types.Function.get_call_type
_options_equal = TargetConfig.__eq__
_NOTHING, _VARIABLE, _MANY, _NAMED, _OTHER = range(5)
_kind_of: dict[type, int] = {ir.Var: _VARIABLE, list: _MANY, tuple: _MANY, dict: _NAMED}


def _call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
    """Of one of Numba's own functions: the same each time, with the same options, once there is one."""
    key = _key(self, context, args, kws)
    known = _found.get(key)
    if known is not None:
        return known[1]
    signature = _get_call_type(self, context, args, kws)
    if signature is not None:
        _found[key] = (self, signature)
    return signature


def _key(function: Any, context: Any, args: Any, kws: Any) -> tuple[Any, ...]:
    """What an answer follows from. Options are told apart by those that are set."""
    options = ConfigStack.top_or_none()
    chosen = {} if options is None else options._values
    if chosen not in _choices:
        _choices.append(dict(chosen))
    return id(function), id(context), tuple(args), tuple(kws.items()) if kws else (), _choices.index(chosen)


def _options_hash(self: Any) -> int:
    """That of the options' names, as Numba has it: one number for each class."""
    kind = type(self)
    if kind not in _hashes:
        _hashes[kind] = hash(tuple(sorted(kind.options)))
    return _hashes[kind]


def _are_equal(self: Any, other: Any) -> Any:
    """Options that are set alike are alike."""
    if type(self) is type(other) and self._values == other._values:
        return True
    return _options_equal(self, other)


def _variables(self: Any, value: Any) -> list[Any]:
    """All variables below a value, in order."""
    found: list[Any] = []
    _gather(value, found)
    return found


def _gather(value: Any, found: list[Any]) -> None:
    kind = _kind_of.get(type(value))
    if kind is None:
        kind = _kind_of[type(value)] = _kind(value)
    if kind == _VARIABLE:
        found.append(value)
    elif kind == _OTHER:
        found += value.list_vars()
    elif kind == _MANY:
        for one in value:
            _gather(one, found)
    elif kind == _NAMED:
        for one in value.values():
            _gather(one, found)


def _kind(value: Any) -> int:
    """In Numba's order."""
    if isinstance(value, ir.Var):
        return _VARIABLE
    if isinstance(value, ir.Inst):
        return _OTHER
    if isinstance(value, list | tuple):
        return _MANY
    return _NAMED if isinstance(value, dict) else _NOTHING


class _Plain(_errors._DummyColorScheme):
    """Messages of candidates that do not fit, which nobody reads, get no codes of a terminal."""

    def code(self, msg: str) -> str:
        return msg

    errmsg = filename = indicate = highlight = reset = code


def remember() -> None:
    """From now on."""
    _errors._termcolor_inst = _Plain()
    for owner, name, method in (
        (types.Function, "get_call_type", _call_type),
        (TargetConfig, "__hash__", _options_hash),
        (TargetConfig, "__eq__", _are_equal),
        (ir.Inst, "_rec_list_vars", _variables),
    ):
        setattr(owner, name, method)
