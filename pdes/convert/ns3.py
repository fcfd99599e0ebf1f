"""`pdes-sim convert ns3 FOLDER -o case.toml`: a config of an ns-3 (HPCC) case. It refers to the case's files.

Times stay ns-3's (flows start at 2 s and later), so that tables compare line by line. What this version does not model
comes back as warnings. The case's file formats are read by the models, not here.
"""

import json
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from pdes.convert.ns3_config import Entry, check_congestion_control, read_entries, unmodelled
from pdes.errors import ConfigError
from pdes.units import QuantityError, exact_duration, exact_rate, exact_size, parse_duration_ps, parse_rate_bps

INPUT_FILES = ("topology.txt", "flow.txt", "config.txt")
REFERENCE_RATE_BPS = 100 * 10**9  # thresholds of a config hold at this rate and scale with it
ECN_UNIT_BYTES = 1000
HEADER, ACK = "48B", "60B"  # HPCC's packets without INT: PPP 14, IPv4 20, UDP 8, sequence 6; ACKs padded to 60


def convert(folder: str | Path, output: str | Path) -> list[str]:
    """Write `output` for the case in `folder`; return warnings for people.

    ConfigError: a file is missing or malformed, or the case needs what this version does not have.
    """
    case, target = Path(folder), Path(output)
    for name in INPUT_FILES:
        if not (case / name).is_file():
            raise ConfigError(
                str(case / name), "there is no such file", f"Accepted: a folder with {_listed(INPUT_FILES)}"
            )
    entries = read_entries(case / "config.txt")
    check_congestion_control(case / "config.txt", entries)
    routes, warnings = _routes(case)
    tables = {
        "simulation": _simulation(entries),
        "topology": {"kind": "file", "file": _reference(case / "topology.txt", target)},
        "network": _network(entries, _rates_of(case / "topology.txt")),
        "network.dctcp": _dctcp(entries),
        "workload": {"kind": "flows", "file": _reference(case / "flow.txt", target), "format": "ns3"}
        | {"queue_pairs": "per-flow"},
    }
    if routes is not None:
        tables["network"][routes[0]] = _reference(routes[1], target)
    _write(target, _toml(tables))
    return warnings + unmodelled(entries)


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _routes(case: Path) -> tuple[tuple[str, Path] | None, list[str]]:
    """The config key and file that fix the paths, or None with a warning."""
    for key, name in (("next_hops_file", "nexthops.txt"), ("paths_file", "paths.txt")):
        if (case / name).is_file():
            return (key, case / name), []
    text = "neither nexthops.txt nor paths.txt: next hops are tried in descending order of switch ids, paths may differ"
    return None, [f"{case}: {text}"]


def _simulation(entries: dict[str, Entry]) -> dict[str, object]:
    """The stop time in ns-3's own clock; left out where it is beyond the largest time."""
    entry = entries.get("X_STOP_S", entries.get("SIMULATOR_STOP_TIME"))
    if entry is None:
        return {}
    if _number(entry) > 9 * 10**6:
        return {}
    return {"stop_time": exact_duration(_quantity(entry, parse_duration_ps, "s"))}


def _network(entries: dict[str, Entry], rates_bps: set[int]) -> dict[str, object]:
    table: dict[str, object] = {"congestion_control": "dctcp", "header": HEADER, "ack": ACK}
    if "PACKET_PAYLOAD_SIZE" in entries:
        payload_bytes = _number(entries["PACKET_PAYLOAD_SIZE"])
        if payload_bytes.denominator != 1 or payload_bytes < 1:
            raise ConfigError(entries["PACKET_PAYLOAD_SIZE"].where, f"found {payload_bytes}", "Accepted: whole bytes")
        table["payload"] = f"{payload_bytes}B"
    table["window"] = _window(entries)
    for key, name in (("ecn_kmin", "KMIN_MAP"), ("ecn_kmax", "KMAX_MAP")):
        if name in entries:
            table[key] = exact_size(_threshold_bytes(entries[name], rates_bps))
    if "PMAX_MAP" in entries:
        table["ecn_pmax"] = float(_only(entries["PMAX_MAP"], _used(entries["PMAX_MAP"], rates_bps), "one probability"))
    return table


def _window(entries: dict[str, Entry]) -> str:
    if "HAS_WIN" in entries and _number(entries["HAS_WIN"]) == 0:
        raise ConfigError(
            entries["HAS_WIN"].where, "senders without a window are not available in this version", "Accepted: 1"
        )
    return "pair-bdp" if "GLOBAL_T" in entries and _number(entries["GLOBAL_T"]) == 0 else "max-bdp"


def _dctcp(entries: dict[str, Entry]) -> dict[str, object]:
    table: dict[str, object] = {}
    if "EWMA_GAIN" in entries:
        table["gain"] = float(_number(entries["EWMA_GAIN"]))
    for key, name in (("rate_increase", "DCTCP_RATE_AI"), ("min_rate", "MIN_RATE")):
        if name in entries:
            table[key] = exact_rate(_quantity(entries[name], parse_rate_bps))
    return table


def _quantity(entry: Entry, parse: Callable[[object], int], unit: str = "") -> int:
    try:
        return parse(entry.words[0] + unit)
    except QuantityError as error:
        raise ConfigError(entry.where, error.found, error.accepted) from error


def _number(entry: Entry, i_word: int = 0) -> Fraction:
    try:
        number = float(entry.words[i_word])  # rules out a large exponent, which a fraction would spell out
        return Fraction(entry.words[i_word]) if abs(number) < 1e30 else Fraction(10**30)
    except (ValueError, IndexError, OverflowError) as error:
        found = f'found "{" ".join(entry.words)}"'
        raise ConfigError(entry.where, found, "Accepted: a number" + (" for each rate" if i_word else "")) from error


def _used(entry: Entry, rates_bps: set[int]) -> dict[int, Fraction]:
    """The pairs (rate, value) of a map such as `2 25000000000 100 100000000000 400` that the topology's links use."""
    pairs = {}
    for i_pair in range(int(_number(entry))):
        rate_bps = int(_number(entry, 1 + 2 * i_pair))
        if rate_bps <= 0:
            raise ConfigError(entry.where, f"found the rate {rate_bps}", "Accepted: bit/s above zero")
        pairs[rate_bps] = _number(entry, 2 + 2 * i_pair)
    return {rate: value for rate, value in pairs.items() if rate in rates_bps} or pairs


def _threshold_bytes(entry: Entry, rates_bps: set[int]) -> int:
    """The threshold of a 100 Gbps port, of which the file's thresholds must be in proportion to the rate."""
    scaled = {
        rate: value * ECN_UNIT_BYTES * REFERENCE_RATE_BPS / rate for rate, value in _used(entry, rates_bps).items()
    }
    size_bytes = _only(entry, scaled, "thresholds in proportion to the link rate")
    if size_bytes.denominator != 1 or size_bytes < 1:
        raise ConfigError(entry.where, f"is {float(size_bytes):g} bytes at 100 Gbps", "Accepted: whole bytes from 1")
    return int(size_bytes)


def _only(entry: Entry, values: dict[int, Fraction], accepted: str) -> Fraction:
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    found = f'found "{" ".join(entry.words)}"'
    raise ConfigError(entry.where, found, f"Accepted in this version: {accepted}, over the topology's links")


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
    return rates_bps


def _reference(path: Path, target: Path) -> str:
    """`path` as the config at `target` names it."""
    return Path(os.path.relpath(path.resolve(), target.resolve().parent)).as_posix()


def _toml(tables: dict[str, dict[str, object]]) -> str:
    lines = ["# Made by `pdes-sim convert ns3`. Times are ns-3's: its flows start at 2 s and later."]
    for name, table in tables.items():
        if table:
            lines += [
                "",
                f"[{name}]",
                *(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in table.items()),
            ]
    return "\n".join(lines) + "\n"


def _write(target: Path, text: str) -> None:
    """Write the whole file or nothing."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(target)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        accepted = "Accepted: a file name in a folder that can be written"
        raise ConfigError(str(target), f"cannot be written: {error.strerror}", accepted) from error
