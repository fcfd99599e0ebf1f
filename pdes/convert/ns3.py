"""`pdes-sim convert ns3 FOLDER -o case.toml`: a config of an ns-3 (HPCC) case. It refers to the case's files.

The config asks for ns-3's rules, `compatibility = "ns3-hpcc"`, unless the native ones are wanted. Times stay ns-3's
(flows start at 2 s and later), so that tables compare line by line. What is not modelled comes back as warnings. The
case's file formats are read by the models, not here.
"""

import os
from fractions import Fraction
from pathlib import Path

from pdes.convert.ns3_config import Ns3Keys, unmodelled
from pdes.convert.ns3_laws import law_of, mode_of
from pdes.convert.toml_text import Tables, toml_text, write_whole
from pdes.errors import ConfigError
from pdes.units import QuantityError, exact_duration, exact_rate, is_count, parse_duration_ps, parse_rate_bps

INPUT_FILES = ("topology.txt", "flow.txt", "config.txt")
ECN_UNIT_BYTES = 1000
HEADER, ACK = "48B", "60B"  # HPCC's packets without telemetry: PPP 14, IPv4 20, UDP 8, sequence 6; ACKs padded to 60
DEFAULT_BUFFER_MIB = 16
DEFAULT_STOP_S = Fraction("3.01")
LARGEST_STOP_S = 9 * 10**6
MAX_FLOW_BYTES = 2**32 - 1  # ns-3 reads a flow's size into 32 bits
HEAD = "Made by `pdes-sim convert ns3`. Times are ns-3's: its flows start at 2 s and later."


def convert(folder: str | Path, output: str | Path, is_native: bool = False) -> list[str]:
    """Write `output` for the case in `folder`; return warnings for people.

    is_native: the same case by our own rules, for networks as they are, instead of ns-3's. ConfigError: a file is
    missing or malformed.
    """
    case, target = Path(folder), Path(output)
    for name in INPUT_FILES:
        if not (case / name).is_file():
            raise ConfigError(
                str(case / name), "there is no such file", f"Accepted: a folder with {_listed(INPUT_FILES)}"
            )
    keys = Ns3Keys(case / "config.txt")
    mode = mode_of(keys)
    law = law_of(keys, mode, is_native)
    routes, warnings = _routes(case)
    marks, mark_warnings = _marking(keys, _rates_of(case / "topology.txt"))
    network: dict[str, object] = {"congestion_control": law.name, "compatibility": "none" if is_native else "ns3-hpcc"}
    network |= _packets(keys) | _window(keys) | {"ecn": keys.flag("ENABLE_QCN", True)}
    if routes is not None:
        network[routes[0]] = _reference(routes[1], target)
    loss = float(min(keys.number("ERROR_RATE_PER_LINK"), Fraction(1)))
    tables: Tables = {
        "simulation": _simulation(keys),
        "topology": {"kind": "file", "file": _reference(case / "topology.txt", target)},
        "workload": {
            "kind": "flows",
            "file": _reference(case / "flow.txt", target),
            "format": "ns3",
            "queue_pairs": "per-flow",
        },
        "network": network,
        f"network.{law.name}": law.table,
        "network.ecn_rate": marks,
        "network.buffer": {"size": f"{keys.whole('BUFFER_SIZE', DEFAULT_BUFFER_MIB, least=1)}MiB"},
        "network.loss": {"probability": loss} if loss else {},
    }
    tables |= _native(keys) if is_native else {"network.ns3": _quirks(keys)}
    write_whole(target, toml_text(HEAD, tables))
    return [*warnings, *law.warnings, *mark_warnings, *unmodelled(keys, mode), *_size_warnings(case / "flow.txt")]


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _routes(case: Path) -> tuple[tuple[str, Path] | None, list[str]]:
    """The config key and file that fix the paths, or None with a warning."""
    for key, name in (("next_hops_file", "nexthops.txt"), ("paths_file", "paths.txt")):
        if (case / name).is_file():
            return (key, case / name), []
    text = "neither nexthops.txt nor paths.txt: next hops are tried in descending order of switch ids, paths may differ"
    return None, [f"{case}: {text}"]


def _simulation(keys: Ns3Keys) -> dict[str, object]:
    """The stop time in ns-3's own clock; left out where it is beyond the largest time."""
    key = "X_STOP_S" if keys.number("X_STOP_S") else "SIMULATOR_STOP_TIME"
    stop_s = keys.number(key, DEFAULT_STOP_S)
    if stop_s > LARGEST_STOP_S:
        return {}
    try:
        text = keys.entries[key].words[0] if key in keys else str(float(DEFAULT_STOP_S))
        return {"stop_time": exact_duration(parse_duration_ps(text + "s"))}
    except QuantityError as error:
        raise ConfigError(keys.entries[key].where, error.found, error.accepted) from error


def _packets(keys: Ns3Keys) -> dict[str, object]:
    payload_bytes = keys.number("PACKET_PAYLOAD_SIZE", 1000)
    if payload_bytes.denominator != 1 or payload_bytes < 1:
        raise keys.fault("PACKET_PAYLOAD_SIZE", "Accepted: whole bytes")
    return {"payload": f"{payload_bytes}B", "header": HEADER, "ack": ACK}


def _window(keys: Ns3Keys) -> dict[str, object]:
    is_global = keys.number("GLOBAL_T", 1) == 1
    rule = "none" if not keys.flag("HAS_WIN", True) else "max-bdp" if is_global else "pair-bdp"
    return {
        "window": rule,
        "window_follows_rate": keys.flag("VAR_WIN", False),
        "base_rtt": "max" if is_global else "pair",
    }


def _marking(keys: Ns3Keys, rates_bps: set[int]) -> tuple[list[dict[str, object]], list[str]]:
    """A row of [[network.ecn_rate]] for every rate of the topology, and warnings."""
    low, high, probability = keys.by_rate("KMIN_MAP"), keys.by_rate("KMAX_MAP"), keys.by_rate("PMAX_MAP")
    if not keys.flag("ENABLE_QCN", True):
        return [], []
    rows, warnings = [], []
    for rate_bps in sorted(rates_bps):
        if rate_bps not in low.keys() & high.keys() & probability.keys():
            text = f"no KMIN_MAP, KMAX_MAP or PMAX_MAP for {exact_rate(rate_bps)}: thresholds of 0, as ns-3 takes them"
            warnings.append(f"{keys.path}: {text}")
        kmin, kmax = (int(values.get(rate_bps, 0)) * ECN_UNIT_BYTES for values in (low, high))
        pmax = float(min(probability.get(rate_bps, Fraction(0)), Fraction(1)))
        # Above kmax ns-3 marks without looking at kmin.
        thresholds = {"kmin": f"{min(kmin, kmax)}B", "kmax": f"{kmax}B", "pmax": pmax}
        rows.append({"rate": exact_rate(rate_bps)} | thresholds)
    return rows, warnings


def _quirks(keys: Ns3Keys) -> dict[str, object]:
    """[network.ns3]."""
    chunk_bytes = keys.whole("L2_CHUNK_SIZE")
    return {
        "ack_high_priority": keys.flag("ACK_HIGH_PRIO", False),
        **({"chunk": f"{chunk_bytes}B"} if chunk_bytes else {}),
        "ack_interval": f"{keys.whole('L2_ACK_INTERVAL')}B",
        "back_to_zero": keys.flag("L2_BACK_TO_ZERO", False),
        "ignore_pfc": not keys.flag("X_QBB_ENABLED", True),
        "int_multi": keys.whole("INT_MULTI", 1, least=1),
        "rate_bound": keys.flag("RATE_BOUND", True),
    }


def _native(keys: Ns3Keys) -> Tables:
    """What ns-3 has without saying so, where our own rules have a choice."""
    pfc: dict[str, object] = {} if keys.flag("X_QBB_ENABLED", True) else {"enabled": False}
    scheduler: dict[str, object] = {"kind": "round-robin"}
    return {"network.pfc": pfc, "network.scheduler": scheduler}


def _rates_of(path: Path) -> set[int]:
    """The link rates of a topology file. A line that is no link is skipped: the run names it, with its fault."""
    rates_bps = set()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split()
        if len(words) >= 4:
            try:
                rates_bps.add(parse_rate_bps(words[2]))
            except QuantityError:
                continue
    return rates_bps - {0}


def _size_warnings(path: Path) -> list[str]:
    """A warning for the first flow that ns-3 itself could not hold."""
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        words = line.split()
        if len(words) >= 6 and is_count(words[4]) and int(words[4]) > MAX_FLOW_BYTES:
            return [f"{path}: line {number}: {words[4]} bytes; ns-3 keeps sizes in 32 bits, here they are whole"]
    return []


def _reference(path: Path, target: Path) -> str:
    """`path` as the config at `target` names it."""
    return Path(os.path.relpath(path.resolve(), target.resolve().parent)).as_posix()
