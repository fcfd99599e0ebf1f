"""Where a control's class comes from: a module of ours, or the text of a user's file.

A user's file is executed from a copy in the cache folder whose path holds the digest of its text, because Numba tells
versions of a file apart by time and size only. The text travels with the law, so every rank runs what rank 0 read.
"""

import ast
import hashlib
import importlib
import inspect
import os
import sys
import tempfile
import textwrap
import traceback
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numba
from numba.extending import register_jitable

from pdes.engine.jit import JIT_DISABLED
from pdes.errors import ConfigError

_COPY_TIME_S = 10**9  # modification time of every copy: the same on each rank that writes one


class Source(NamedTuple):
    """Where a class is. module: of ours, or ""; path, text, package: of a user's file."""

    class_name: str
    module: str = ""
    path: str = ""
    text: str = ""
    package: str = ""  # for the relative imports of an installed package's file

    @property
    def digest(self) -> str:
        """sha256 of a user's file; "" for a control of ours, whose version says it all."""
        return hashlib.sha256(self.text.encode()).hexdigest() if self.path else ""

    def copy_path(self) -> Path:
        """Where a user's file is executed from."""
        folder = Path(numba.config.CACHE_DIR)  # pyright: ignore[reportAttributeAccessIssue]
        return folder / "laws" / self.digest / Path(self.path).name

    def shown(self, text: str) -> str:
        """An error's text with the user's file named instead of its copy."""
        return text.replace(str(self.copy_path()), self.path) if self.path else text

    def where(self, line: int | None = None) -> str:
        """The file, and the line in it, for an error."""
        file = self.path or self.module
        return f"{file}: line {line}" if line else file


@cache
def load_class(source: Source) -> type:
    """The control's class. Raises ConfigError: a syntax error, an error while the file is executed, no such class."""
    if source.module:
        return getattr(importlib.import_module(source.module), source.class_name)
    found = vars(_execute(source)).get(source.class_name)
    if isinstance(found, type):
        return found
    raise ConfigError(source.where(), f'has no class "{source.class_name}"', f"Classes here: {_classes(source)}")


def _execute(source: Source) -> ModuleType:
    """The user's file as a module. Its plain functions may be called from handlers."""
    path = source.copy_path()
    _write_once(path, source.text)
    module = ModuleType(f"pdes_sim_law_{source.digest[:16]}_{Path(source.path).stem}")
    module.__file__ = str(path)
    module.__package__ = source.package
    sys.modules[module.__name__] = module  # dataclasses and Numba's cache look it up
    try:
        exec(compile(source.text, str(path), "exec"), vars(module))
    except SyntaxError as error:
        line = (error.text or "").strip()
        raise ConfigError(source.where(error.lineno), f"{error.msg}: {line}" if line else str(error.msg)) from None
    except (Exception, SystemExit) as error:
        raise ConfigError(source.where(line_in(error, path)), f"{type(error).__name__}: {error}") from None
    if not JIT_DISABLED:
        for value in list(vars(module).values()):
            if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                register_jitable(value)
    return module


def _write_once(path: Path, text: str) -> None:
    """The copy, whole from the moment that it exists, whichever rank writes it."""
    if path.is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.utime(draft, (_COPY_TIME_S, _COPY_TIME_S))
    os.replace(draft, path)


def line_in(error: BaseException, path: Path) -> int | None:
    """The last line of a file that an exception passed through."""
    lines = [entry.lineno for entry in traceback.extract_tb(error.__traceback__) if entry.filename == str(path)]
    return lines[-1] if lines else None


def division_lines(function: FunctionType) -> list[int]:
    """The lines of a function that divide, none if its source cannot be had."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return []
    divides = (ast.Div, ast.FloorDiv, ast.Mod)
    nodes = [n for n in ast.walk(tree) if isinstance(n, (ast.BinOp, ast.AugAssign)) and isinstance(n.op, divides)]
    return sorted({function.__code__.co_firstlineno + node.lineno - 1 for node in nodes})


def _classes(source: Source) -> str:
    module = sys.modules[f"pdes_sim_law_{source.digest[:16]}_{Path(source.path).stem}"]
    names = [
        name for name, value in vars(module).items() if isinstance(value, type) and value.__module__ == module.__name__
    ]
    return ", ".join(names) or "none"


def handler_of(control: type, name: str) -> Any:
    """The plain function of a handler of the class or of one that it inherits from; None if there is none."""
    for parent in control.__mro__:
        if name in vars(parent):
            value = vars(parent)[name]
            return value.__func__ if isinstance(value, staticmethod) else value
    return None
