"""Congestion controls by name: ours, a user's "file.py:Class", or an installed package's entry point.

A law is a control's class with what the engine asks of it. Its form is in `interface.py`, and in
docs/congestion-control.md. It holds only text, so ranks get it by pickle and compile it themselves, from the disk
cache.
"""

import importlib.util
import inspect
import linecache
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np

from models.congestion import compiled, parameters
from models.congestion.check import check_class
from models.congestion.compile_error import compile_error
from models.congestion.compiled import Handlers, run_plain
from models.congestion.interface import FLOW_FIELDS, FLOW_TIMER, HANDLERS, N_TIMER, NEVER
from models.congestion.parameters import nearest
from models.congestion.source import Source, division_lines, handler_of, line_in, load_class
from pdes.engine.jit import record, zeros_for
from pdes.errors import ConfigError
from pdes.files import read_bytes
from pdes.units import shown

BUILT_IN = {
    "dctcp": "Dctcp",
    "dcqcn": "Dcqcn",
    "hpcc": "Hpcc",
    "hpcc-pint": "HpccPint",
    "timely": "Timely",
    "swift": "Swift",
    "nscc": "Nscc",
    "fixed-window": "FixedWindow",
    "none": "LineRate",
}
ENTRY_POINT_GROUP = "pdes_sim.congestion_control"
_KEY = "[network] congestion_control"


@dataclass(frozen=True)
class Law:
    """A congestion control as the engine uses it. name: also of its table [network.<name>]."""

    name: str
    source: Source

    @property
    def control(self) -> type:
        """The class itself."""
        return load_class(self.source)

    @property
    def digest(self) -> str:
        """sha256 of the file if it is not ours, else "": part of what determines a result."""
        return self.source.digest

    @property
    def header_bytes(self) -> int:
        """What the control adds to every data packet."""
        return getattr(self.control, "header_bytes", 0)

    @property
    def needs(self) -> tuple[str, ...]:
        """Of "rtt", "int" and "pint": what packets have to carry."""
        return getattr(self.control, "needs", ())

    @property
    def window(self) -> str:
        """Default of [network] window."""
        return getattr(self.control, "window", "none")

    @property
    def knows_base_rtt(self) -> bool:
        """Whether the control looks at the base round-trip time that it is told: its turns may take as long."""
        text = self.source.text or inspect.getsource(sys.modules[self.control.__module__])
        return "base_rtt_ps" in text

    @property
    def controls_window(self) -> bool:
        """True: handlers set flow.window_bytes; False: the engine derives it from the rate."""
        return getattr(self.control, "controls_window", False)

    @property
    def ecn_at_100g(self) -> tuple[int, int, float] | None:
        """(kmin bytes, kmax bytes, pmax) of a 100 Gbit/s port; None: the control takes no notice of marks."""
        return getattr(self.control, "ecn_at_100g", None)

    @property
    def flow_dtype(self) -> np.dtype:
        """A row per queue pair: the fixed words, then the control's state."""
        return record(FLOW_FIELDS + [_state_field(name, value) for name, value in _state(self.control).items()])

    @property
    def moving_words(self) -> tuple[list[int], list[int]] | None:
        """Words of a flow's record that a skip moves: those of instants, those of bytes of the stream.

        None: a control with state of its own does not say (`times`, `sequences`), so that none of its flows is skipped.
        """
        state = _state(self.control)
        if state and not hasattr(self.control, "times") and not hasattr(self.control, "sequences"):
            return None
        words: list[list[int]] = []
        for kind in ("times", "sequences"):
            words.append([word for name in getattr(self.control, kind, ()) for word in self._words_of(name)])
        words[0] += [FLOW_TIMER + k for k in range(N_TIMER)]
        return words[0], words[1]

    @property
    def word_kinds(self) -> tuple[list[str], list[int]]:
        """What each word of a flow's record is: "instant", "place" in the stream, "hop" count, "path" or "raw"; and of
        a hop's count which hop it is of."""
        n_word = self.flow_dtype.itemsize // 8
        kinds, hops = ["raw"] * n_word, [0] * n_word
        for attribute, kind in (("times", "instant"), ("sequences", "place"), ("hop_counts", "hop"), ("paths", "path")):
            for name in getattr(self.control, attribute, ()):
                for k, word in enumerate(self._words_of(name)):
                    kinds[word], hops[word] = kind, k
        for k in range(N_TIMER):
            kinds[FLOW_TIMER + k] = "instant"
        return kinds, hops

    @property
    def hop_count_words(self) -> tuple[list[int], list[int]]:
        """Words of a flow's record that hold what a hop has sent, and which hop."""
        kinds, hops = self.word_kinds
        words = [word for word, kind in enumerate(kinds) if kind == "hop"]
        return words, [hops[word] for word in words]

    @property
    def float_words(self) -> list[int]:
        """Words of a flow's record that hold floats: averages, which may still move when the rate does not."""
        names = [name for name in _state(self.control) if self.flow_dtype[name].base.kind == "f"]
        return [word for name in names for word in self._words_of(name)]

    def _words_of(self, name: str) -> list[int]:
        """Where a state lies in a flow's record, in words."""
        fields: Any = self.flow_dtype.fields
        dtype, at = fields[name][:2]
        return [at // 8 + k for k in range(dtype.itemsize // 8)]

    @property
    def parameter_dtype(self) -> np.dtype:
        """One record of make_parameters."""
        return parameters.parameter_dtype(self.control)

    def parameter_values(self, given: dict[str, Any], constants: str = "default") -> dict[str, Any]:
        """All parameters, from the table [network.<name>] (without `constants`) over a named set of constants.

        A quantity's key has no unit suffix (`min_rate = "1Gbps"`), though the full name is accepted too.
        Raises ConfigError.
        """
        return parameters.parameter_values(self.control, f"network.{self.name}", given, constants)

    def make_parameters(self, values: dict[str, Any], line_rates_bps: Any) -> np.ndarray:
        """One parameter record per line rate, from parameter_values' result."""
        return parameters.make_parameters(self.control, values, line_rates_bps)

    def make_flows(self, n_flow: int, rows: np.ndarray | slice = slice(None)) -> np.ndarray:  # noqa: B008
        """Queue pairs with the control's initial state, timers off, all else zero; nothing but zeros outside `rows`."""
        n_own = n_flow if isinstance(rows, slice) else len(rows)
        flows = zeros_for(n_own, n_flow, self.flow_dtype)
        flows["timer_ps"][rows] = NEVER
        for name, value in _state(self.control).items():
            flows[name][rows] = value
        return flows

    def compile(self) -> Handlers:
        """Addresses of the handlers on this rank; compiled, or loaded, at the first call. Raises ConfigError."""
        return _handlers(self)

    def explain(self, handler: str, flow: Any, event: Any, p: Any, exception: int = 0) -> str:
        """Where and how a handler has raised. exception: the second word of the call's scratch.

        Without it, or if it cannot be read, the handler runs again as plain Python, on copies of the records; that
        may not get as far as the line in question, because the first run has changed them.
        """
        function = handler_of(self.control, handler)
        text, line = compiled.raised(exception) or ("an exception", None)
        if line is None:
            error = getattr(self.compile().alive[HANDLERS.index(handler)], "error", None)
            error = error or _error_again(function, flow, event, p)
            if error is None:
                lines = division_lines(function) if "division" in text else []
                at = f", at one of the lines {', '.join(map(str, lines))}" if lines else ""
                return f"{self.source.where()}: {handler} raised {text}{at}"
            text = f"{type(error).__name__}: {error}"
            line = line_in(error, Path(function.__code__.co_filename)) or function.__code__.co_firstlineno
        code = linecache.getline(function.__code__.co_filename, line).strip()
        return f"{self.source.where(line)}: {handler} raised {text}, at: {code}"


def _error_again(function: Any, flow: Any, event: Any, p: Any) -> Exception | None:
    rows = [np.asarray(row).reshape(-1)[:1].copy() for row in (flow, event, p)]
    try:
        run_plain(function, *(row.view(np.dtype((np.record, row.dtype)))[0] for row in rows))
    except Exception as error:
        return error
    return None


def find_law(name_or_path: str, base_folder: str | Path = ".") -> Law:
    """The law of a name, of "file.py:Class" (relative to base_folder), or of an entry point.

    A control that is not ours is checked and compiled at once. Raises ConfigError, with file and line.
    """
    if name_or_path in BUILT_IN:
        module = f"models.congestion.{name_or_path.replace('-', '_')}"
        return Law(name_or_path, Source(BUILT_IN[name_or_path], module=module))
    if ".py" in name_or_path:
        law = _users(name_or_path, Path(base_folder))
    else:
        law = _entry_point(name_or_path)
    check_class(law.control, law.source)
    law.compile()
    return law


def _users(text: str, base_folder: Path) -> Law:
    file, _, class_name = text.rpartition(":")
    if not file or not class_name.isidentifier():
        raise ConfigError(_KEY, f"found {shown(text)}", 'A file and a class in it, such as "my_cc.py:MyControl"')
    path = base_folder / file
    try:
        content = read_bytes(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError(_KEY, f"cannot read {path}: {reason}") from None
    return Law(path.stem, Source(class_name, path=str(path), text=content))


def _entry_point(name: str) -> Law:
    found = list(entry_points(group=ENTRY_POINT_GROUP, name=name))
    if not found:
        known = [*BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))]
        advice = nearest(name, known)
        advice += "" if advice.endswith("?") else "."
        raise ConfigError(_KEY, f"found {shown(name)}", f'{advice} A file of yours is written "file.py:Class"')
    spec = importlib.util.find_spec(found[0].module)
    if spec is None or not spec.origin:
        raise ConfigError(_KEY, f'entry point "{name}": no module {found[0].module}')
    text = Path(spec.origin).read_bytes().decode()
    return Law(name, Source(found[0].attr, path=spec.origin, text=text, package=spec.parent or ""))


def _state(control: type) -> dict[str, Any]:
    return getattr(control, "state", {})


def _state_field(name: str, value: Any) -> tuple[Any, ...]:
    elements = value if isinstance(value, tuple) else (value,)
    kind = np.float64 if any(isinstance(element, (float, np.floating)) for element in elements) else np.int64
    return (name, kind, (len(value),)) if isinstance(value, tuple) else (name, kind)


@cache
def _handlers(law: Law) -> Handlers:
    try:
        return compiled.compile_handlers(law.control, law.flow_dtype, law.parameter_dtype)
    except ConfigError:
        raise
    except Exception as error:
        if not law.source.path:
            raise
        raise compile_error(error, law.source, law.flow_dtype, law.parameter_dtype) from error
