"""Flow mode's numbers of a congestion control: as a config says, or as they were measured (`calibrate --flow`).

A row of a table of calibrations has

    alone, shared   share of a port's rate that one message has alone, and that several have together
    queue           how long a message's last packet waits at a port that it shares. A time: thresholds of queues are in
                    proportion to the rate, so this holds at any rate
    use, reach, use_from   three lists, of a port for which messages contend; only where a control needs them, see Use
    error, worst    of completion times where it was measured: mean of the absolute relative error, and the largest
    port_error      the same mean where messages meet in one port,
    exchange_error  where everybody sends to everybody (these two kinds make up the error),
    ring_error      in a ring that sends both ways, and
    far_error       in exchanges among hosts at different distances, neither of which was fitted
    parameters      digest of the control's parameters, and of its file
    version, rate, rtt, payload   what it was measured with
"""

import hashlib
import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from pdes.config import Config
from pdes.config.toml_file import read_toml
from pdes.errors import ConfigError
from pdes.scenario.control import Control, find_control
from pdes.skipping.max_min.table import WHOLE, Use
from pdes.units import QuantityError, parse_duration_ps, parse_rate_bps, parse_size_bytes, shown

PACKAGE, SHIPPED = "models.network.flow_mode", "calibrated.toml"
_KEY = "[wormhole.flow] calibration"
_SHARES, _ERRORS = ("alone", "shared"), ("error", "worst", "port_error", "exchange_error", "ring_error", "far_error")
_QUANTITIES = {
    "queue": parse_duration_ps, "rate": parse_rate_bps, "rtt": parse_duration_ps, "payload": parse_size_bytes,
}  # fmt: skip
_TEXTS, _LISTS = ("parameters", "version"), ("use", "reach", "use_from")


class FlowNumbers(NamedTuple):
    """What flow mode is told of a control. row: of a table of calibrations, {}: it has none."""

    control: str
    alone: float = 1.0
    shared: float = 1.0
    queue_ps: float = 0.0
    use: Use = WHOLE
    row: dict[str, Any] = {}
    has_other_parameters: bool = False  # than those that the row was measured with

    def facts(self) -> dict[str, Any]:
        """What results say of it, plain JSON."""
        found = {"control": self.control, "alone": self.alone, "shared": self.shared, "queue_ps": self.queue_ps}
        if self.use != WHOLE:
            found["contended"] = {name: list(values) for name, values in self.use._asdict().items()}
        if not self.row:
            return found
        made = {"payload_bytes": self.row["payload"], "rate_bps": self.row["rate"], "rtt_ps": self.row["rtt"]}
        errors = {name: self.row[name] for name in _ERRORS}
        made |= {"version": self.row["version"]}
        return found | errors | {"has_other_parameters": self.has_other_parameters, "made_at": made}


def flow_numbers(config: Config, is_quiet: bool = False) -> FlowNumbers:
    """Those of a config in mode "flow". Raises ConfigError: a file without the control, or with nonsense.

    A control of which nothing is known gets whole links and no queues, and unless is_quiet one line says so.
    """
    flow, control = config.wormhole.flow, find_control(config)
    name = control.law.name
    if isinstance(flow.efficiency, float):
        return FlowNumbers(name, flow.efficiency, flow.efficiency)
    if flow.compensation == "none":
        return FlowNumbers(name)
    if flow.calibration is not None:
        table = read_calibrations(config.input_path(flow.calibration))
        if name not in table:
            found = f"{flow.calibration} has no row of {shown(name)}, only of {', '.join(table) or 'nothing'}"
            raise ConfigError(_KEY, found, f"Accepted: a file of pdes-sim calibrate --flow with {shown(name)}")
    else:
        table = shipped_calibrations()
    row = table.get(name) if flow.calibration or not control.law.digest else None
    if row is None and is_quiet:
        return FlowNumbers(name)
    if row is None:
        print(
            f"pdes-sim: warning: nothing is known of {name} in flow mode: its messages get whole links, and nothing "
            f"waits. pdes-sim calibrate --flow {config.source} measures it",
            file=sys.stderr, flush=True,
        )  # fmt: skip
        return FlowNumbers(name)
    is_other = row["parameters"] != parameters_digest(control)
    # The program's own curves are of unlimited buffers: limited ones pause senders, or drop, before controls cut rates.
    use = row["contended"] if flow.calibration or not config.network.buffer.is_limited else WHOLE
    return FlowNumbers(name, row["alone"], row["shared"], float(row["queue"]), use, row, is_other)


def parameters_digest(control: Control) -> str:
    """Of all that makes a control what it is, short."""
    return hashlib.sha256(json.dumps(control.identity(), sort_keys=True).encode()).hexdigest()[:16]


def shipped_calibrations() -> dict[str, dict[str, Any]]:
    """Control to its row, in the table that comes with the program."""
    return read_calibrations(Path(str(files(PACKAGE) / SHIPPED)))


def read_calibrations(path: Path) -> dict[str, dict[str, Any]]:
    """Control to its row, quantities in ps, bytes and bit/s. Raises ConfigError that names the file and the key."""
    tables, _ = read_toml(path)
    return {name: _row(f"{path}: [{name}]", row) for name, row in tables.items()}


def _row(where: str, row: object) -> dict[str, Any]:
    names = (*_SHARES, *_ERRORS, *_QUANTITIES, *_TEXTS)
    if not isinstance(row, dict):
        raise ConfigError(where, f"found {shown(row)}", "Accepted: a table, as pdes-sim calibrate --flow writes it")
    own, lists = [*names, *(_LISTS if _LISTS[0] in row else ())], [row.get(name, []) for name in _LISTS]
    for name in [*own, *row]:
        if name not in own or name not in row:
            found = "unknown key" if name in row else "is missing"
            raise ConfigError(f"{where} {name}", found, f"Accepted: the keys {', '.join([*names, *_LISTS])}")
    values = {name: _value(f"{where} {name}", name, row[name]) for name in names}
    return values | {"contended": _contended(where, lists)}


def _contended(where: str, lists: list[Any]) -> Use:
    if not all(isinstance(one, list) and len(one) == len(lists[0]) for one in lists):
        raise ConfigError(where, f"found {', '.join(map(shown, lists))}", "Accepted: three lists of equal lengths")
    use, reach = (
        tuple(_value(f"{where} {name}", _SHARES[0], x) for x in own)
        for name, own in zip(_LISTS[:2], lists[:2], strict=True)
    )
    from_ps = tuple(_value(f"{where} {_LISTS[2]}", "queue", x) for x in lists[2])
    if list(from_ps) != sorted(set(from_ps)) or from_ps[:1] not in ((), (0,)):
        raise ConfigError(f"{where} {_LISTS[2]}", f"found {shown(lists[2])}", "Accepted: times that grow, from 0")
    return Use(use, reach, from_ps)


def _value(where: str, name: str, value: object) -> Any:
    if name in _QUANTITIES:
        try:
            return _QUANTITIES[name](value)
        except QuantityError as error:
            raise ConfigError(where, error.found, f"Accepted: {error.accepted}") from None
    if name in _TEXTS:
        if isinstance(value, str):
            return value
        raise ConfigError(where, f"found {shown(value)}", "Accepted: text")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if 0 < value <= 1 if name in _SHARES else 0 <= value < float("inf"):
            return float(value)
    accepted = "a number above 0, at most 1" if name in _SHARES else "a number from 0"
    raise ConfigError(where, f"found {shown(value)}", f"Accepted: {accepted}")
