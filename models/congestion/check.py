"""Faults of a control's class, found before the run and told as the user's file, line, and what is accepted."""

import ast
import builtins
import inspect
from types import FunctionType
from typing import Any

import numpy as np

from models.congestion.interface import (
    EVENT_FIELDS,
    EVENT_WRITABLE,
    FLOW_FIELDS,
    FLOW_WRITABLE,
    HANDLERS,
    NEEDS,
    WINDOWS,
)
from models.congestion.parameters import default_value, nearest
from models.congestion.source import Source, handler_of
from pdes.errors import ConfigError
from pdes.units import QuantityError

MOVING = ("times", "sequences", "hop_counts", "paths")  # what a skip, or another place in the network, changes
ATTRIBUTES = {  # what a class may define: what its value has to be
    "header_bytes": "a whole number of bytes, 0..1000",
    "needs": f"a tuple of {', '.join(NEEDS)}",
    "window": f"one of {', '.join(WINDOWS)}",
    "controls_window": "True or False",
    "ecn_at_100g": "(kmin_bytes, kmax_bytes, pmax) with 0 <= kmin <= kmax and 0 < pmax <= 1, or None",
    "parameters": "a dictionary",
    "papers": "a dictionary of dictionaries",
    "limits": "a dictionary of (least, most)",
    "state": "a dictionary",
    "times": "a tuple of names of state that hold an instant",
    "sequences": "a tuple of names of state that hold a byte of the flow's stream",
    "hop_counts": "a tuple of names of state that hold a hop's hop_tx_bytes, one element per hop",
    "paths": "a tuple of names of state that hold a path_id",
}


def check_class(control: type, source: Source) -> None:
    """Raise ConfigError for a class that is not a congestion control; the first fault, with its line where known."""
    tree = _class_tree(source)
    where = source.where(tree.lineno if tree else None)
    names = [name for parent in control.__mro__[:-1] for name in vars(parent) if not name.startswith("_")]
    for name in names:
        if name not in ATTRIBUTES and name not in HANDLERS:
            advice = nearest(name, [*ATTRIBUTES, *HANDLERS])
            raise ConfigError(where, f'class {control.__name__} has an unknown attribute "{name}"', advice)
    for name, accepted in ATTRIBUTES.items():
        if hasattr(control, name) and not _is_fine(name, getattr(control, name)):
            raise ConfigError(where, f"{name} = {getattr(control, name)!r}", f"{accepted[0].lower()}{accepted[1:]}")
    if not any(handler_of(control, name) for name in HANDLERS):
        raise ConfigError(where, f"class {control.__name__} has no handler", f"At least one of {', '.join(HANDLERS)}")
    _check_state(control, where)
    _check_parameters(control, where)
    for name in HANDLERS:
        _check_handler(control, name, source, tree)


def _is_fine(name: str, value: Any) -> bool:
    try:
        if name == "header_bytes":
            return type(value) is int and 0 <= value <= 1000
        if name == "needs":
            return isinstance(value, tuple) and set(value) <= set(NEEDS)
        if name == "window":
            return value in WINDOWS
        if name in MOVING:
            return isinstance(value, tuple) and all(isinstance(state, str) for state in value)
        if name == "controls_window":
            return isinstance(value, bool)
        if name == "ecn_at_100g":
            return value is None or (0 <= value[0] <= value[1] and 0 < value[2] <= 1 and len(value) == 3)
        if name == "papers":
            return isinstance(value, dict) and all(isinstance(paper, dict) for paper in value.values())
        return isinstance(value, dict)
    except (TypeError, IndexError):
        return False


def _check_state(control: type, where: str) -> None:
    fixed = {field[0] for field in FLOW_FIELDS}
    for name, value in getattr(control, "state", {}).items():
        _check_name(name, "state", where, fixed)
        elements = value if isinstance(value, tuple) else (value,)
        if not elements or not all(isinstance(element, (int, float, np.number)) for element in elements):
            raise ConfigError(where, f'state "{name}" starts as {value!r}', "an int, a float, or a tuple of them")
    _check_moving(control, where)


def _check_moving(control: type, where: str) -> None:
    """What a skip moves is state, and whole numbers."""
    state = getattr(control, "state", {})
    for kind in MOVING:
        for name in getattr(control, kind, ()):
            if name not in state:
                raise ConfigError(where, f'{kind} has "{name}"', nearest(name, list(state)))
            elements = state[name] if isinstance(state[name], tuple) else (state[name],)
            if not all(isinstance(element, (int, np.integer)) for element in elements):
                found = f'{kind} has "{name}", which starts as {state[name]!r}'
                raise ConfigError(where, found, "a state of whole numbers")


def _check_parameters(control: type, where: str) -> None:
    defaults = getattr(control, "parameters", {})
    for name, value in defaults.items():
        _check_name(name, "parameter", where, set())
        _check_default(where, f'parameter "{name}"', name, value)
    for name, bounds in getattr(control, "limits", {}).items():
        if name not in defaults:
            raise ConfigError(where, f'limits has "{name}"', nearest(name, list(defaults)))
        if not isinstance(bounds, tuple) or len(bounds) != 2:
            raise ConfigError(where, f'limits "{name}" is {bounds!r}', "(least, most), None for no bound")
        for bound in (bound for bound in bounds if bound is not None):
            _check_default(where, f'limits "{name}"', name, bound)
    for paper, values in getattr(control, "papers", {}).items():
        for name, value in values.items():
            if name not in defaults:
                raise ConfigError(where, f'papers "{paper}" sets "{name}"', nearest(name, list(defaults)))
            _check_default(where, f'papers "{paper}" "{name}"', name, value)
            if isinstance(defaults[name], float) != isinstance(value, float):
                raise ConfigError(where, f'papers "{paper}" "{name}" is {value!r}', f"the type of {defaults[name]!r}")


def _check_default(where: str, what: str, name: str, value: Any) -> None:
    try:
        default_value(name, value)
    except QuantityError as error:
        raise ConfigError(where, f"{what}: {error.found}", error.accepted) from None
    except TypeError as error:
        raise ConfigError(where, f"{what} is {value!r}: {error}") from None


def _check_name(name: Any, kind: str, where: str, taken: set[str]) -> None:
    if not isinstance(name, str) or not name.isidentifier() or hasattr(np.record, name) or name in taken:
        reason = "is a field of every flow" if name in taken else "means something else on a record of NumPy"
        is_word = isinstance(name, str) and name.isidentifier()
        raise ConfigError(where, f"{kind} {name!r} {reason if is_word else 'is not a name'}", "Choose another name")


def _check_handler(control: type, name: str, source: Source, tree: ast.ClassDef | None) -> None:
    function = handler_of(control, name)
    if function is None:
        return
    node = next((n for n in (tree.body if tree else []) if isinstance(n, ast.FunctionDef) and n.name == name), None)
    where = source.where(node.lineno if node else None)
    if not isinstance(function, FunctionType):
        raise ConfigError(where, f"{name} is not a plain function", f"@staticmethod def {name}(flow, event, p)")
    if len(inspect.signature(function).parameters) != 3:
        found = f"{name}{inspect.signature(function)}"
        raise ConfigError(where, found, f"Three arguments: {name}(flow, event, p), after @staticmethod")
    if node is not None:
        _check_statements(name, node, source)
        _check_names(function, node, source)
        _check_fields(control, node, source)


def _check_statements(name: str, node: ast.FunctionDef, source: Source) -> None:
    """What Numba would either refuse in many words or quietly take."""
    for part in ast.walk(node):
        if isinstance(part, (ast.Yield, ast.YieldFrom)) or (isinstance(part, ast.Return) and part.value is not None):
            where = source.where(part.lineno)
            raise ConfigError(where, f"{name} returns a value", "Handlers return nothing; they write to the flow")
        if isinstance(part, (ast.Import, ast.ImportFrom)):
            raise ConfigError(source.where(part.lineno), "import inside a handler", "Imports stand above the class")


def _check_names(function: FunctionType, node: ast.FunctionDef, source: Source) -> None:
    known = {*function.__code__.co_varnames, *function.__code__.co_cellvars, *function.__globals__, *dir(builtins)}
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and part.id not in known:
            names = [name for name in known - {*dir(builtins)} if not name.startswith("__")]
            raise ConfigError(source.where(part.lineno), f"{part.id} is not defined", nearest(part.id, names))


def _check_fields(control: type, node: ast.FunctionDef, source: Source) -> None:
    """Every field that the function reads or writes by `argument.field` exists, and may be written."""
    state = list(getattr(control, "state", {}))
    known = (
        ([field[0] for field in FLOW_FIELDS] + state, [*FLOW_WRITABLE, *state]),
        ([field[0] for field in EVENT_FIELDS], list(EVENT_WRITABLE)),
        (list(getattr(control, "parameters", {})), []),
    )
    fields = {argument.arg: names for argument, names in zip(node.args.args, known, strict=True)}
    written = {id(target) for target in ast.walk(node) for target in _targets(target)}
    for attribute in (n for n in ast.walk(node) if isinstance(n, ast.Attribute)):
        if isinstance(attribute.value, ast.Name) and attribute.value.id in fields:
            text, (names, writable) = f"{attribute.value.id}.{attribute.attr}", fields[attribute.value.id]
            where = source.where(attribute.lineno)
            if attribute.attr not in names:
                raise ConfigError(where, f"{text} does not exist", nearest(attribute.attr, names))
            if id(attribute) in written and attribute.attr not in writable:
                accepted = f"Handlers may write {', '.join(writable)}" if writable else "Parameters are constant"
                raise ConfigError(where, f"{text} is written", accepted)


def _targets(node: ast.AST) -> list[ast.AST]:
    """The attribute that an assignment to `a.b` or to `a.b[i]` writes."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return [node.value]
    return [node] if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) else []


def _class_tree(source: Source) -> ast.ClassDef | None:
    tree = ast.parse(source.text) if source.path else ast.Module([], [])
    return next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == source.class_name), None)
