"""What Numba says of a user's control, in one line: its own report goes on for pages about its insides."""

import re

import numpy as np
from numba import from_dtype
from numba.core.errors import NumbaError

from models.congestion.interface import EVENT
from models.congestion.source import Source
from pdes.errors import ConfigError

_STYLE = re.compile(r"\x1b\[[0-9;]*m")  # of a terminal; Numba uses it wherever colorama is installed
_NESTED = "Rejected as the implementation raised a specific error:"
_NOISE = re.compile(r"(\w+Error: )?Failed in|During:|File |<source|def |\^|There (is|are)|- Of which|raised from|$")
_PLAINER = (
    (r"Literal\[\w+\]\((.*?)\)", r"\1"),
    (r"No implementation of function .*? found for signature:;? *>>> *(.*)", r"\1 is not supported in compiled code"),
    (r"NRT required but not enabled", "it makes a list, an array or text; handlers use numbers and the flow's state"),
    (r"\.? Raised from.*", ""),
    (r"exception_match\(.*?\)", "catching exceptions by class"),
    (r"<function (\w+) at 0x\w+>", r"\1"),
)


def compile_error(error: Exception, source: Source, flow_dtype: np.dtype, parameter_dtype: np.dtype) -> ConfigError:
    """The error as a ConfigError that names the user's file and, where Numba knows it, the line."""
    if isinstance(error, KeyError):  # Numba's own fault with a name that a record does not have
        name = str(error.args[0]) if error.args else ""
        return ConfigError(source.where(_line_of(rf"\.{name}\b", source)), f'a record has no field "{name}"')
    text = str(error) if isinstance(error, NumbaError) else f"{type(error).__name__}: {error}"
    text = _STYLE.sub("", text)
    dtypes = {"flow": flow_dtype, "event": EVENT, "parameters": parameter_dtype}
    for name, dtype in dtypes.items():
        text = text.replace(str(from_dtype(dtype)), f"the {name} record")
    headline, line = _innermost(text, source)
    location = getattr(error, "loc", None)
    return ConfigError(source.where(line or getattr(location, "line", None)), f"cannot be compiled: {headline}")


def _innermost(text: str, source: Source) -> tuple[str, int | None]:
    """The first lines of the innermost report that is about the user's file, and the line that it names."""
    file = re.escape(source.copy_path().name)
    reports = text.split(_NESTED)
    for report in reversed(reports):
        found = re.search(r'File "(.*?)", line (\d+)', report)
        if found and re.search(file, found[1]):
            return _plain(report, source), int(found[2])
    lines = re.findall(rf"{file}(?:\"?, line | \()(\d+)", text)
    return _plain(reports[0], source), int(lines[-1]) if lines else None


def _plain(report: str, source: Source) -> str:
    said = [line.strip() for line in source.shown(report).splitlines()]
    short = "; ".join([line for line in said if not _NOISE.match(line)][:2])
    for pattern, replacement in _PLAINER:
        short = re.sub(pattern, replacement, short)
    return re.sub(r"^(Typing|\w*)Error: ", "", short)[:300]


def _line_of(pattern: str, source: Source) -> int | None:
    """The first line of the user's file that a pattern is found in."""
    lines = source.text.splitlines()
    return next((i for i, line in enumerate(lines, start=1) if re.search(pattern, line)), None)
