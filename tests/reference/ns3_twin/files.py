"""Case folders: topology.txt, flow.txt, config.txt, nexthops.txt and paths.txt, read and written."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reference.ns3_twin.case import NextHops, Ns3Case, Ns3Config, Ns3Flow, Ns3Link, source_ports
from reference.ns3_twin.quantities import parse_quantity, seconds_text, seconds_to_ns
from reference.ns3_twin.routes import route_flows, shortest_next_hops

ECN_UNIT_BYTES = 1000

Reader = Callable[[list[str]], Any]
Writer = Callable[[Any], str]
_INTEGER: tuple[Reader, Writer] = (lambda words: int(float(words[0])), str)
_FLOAT: tuple[Reader, Writer] = (lambda words: float(words[0]), repr)
_FLAG: tuple[Reader, Writer] = (lambda words: float(words[0]) != 0, lambda flag: str(int(flag)))
_RATE: tuple[Reader, Writer] = (lambda words: parse_quantity(words[0]), lambda rate_bps: f"{rate_bps}bps")
_SECONDS: tuple[Reader, Writer] = (lambda words: seconds_to_ns(float(words[0])), seconds_text)


def _by_rate(read: Callable[[str], float], write: Callable[[Any], str]) -> tuple[Reader, Writer]:
    """A map of config.txt: the number of its entries, then link rate and value in turn."""

    def text(values: Mapping[int, float]) -> str:
        return " ".join([str(len(values)), *(f"{rate} {write(value)}" for rate, value in values.items())])

    return lambda words: {int(r): read(v) for r, v in zip(words[1::2], words[2::2], strict=True)}, text


_KB_BY_RATE = _by_rate(lambda kb: int(kb) * ECN_UNIT_BYTES, lambda size_bytes: str(size_bytes // ECN_UNIT_BYTES))
KEYS: dict[str, tuple[str, tuple[Reader, Writer]]] = {  # key: (field of Ns3Config, how to read and to write it)
    "ENABLE_QCN": ("ecn_is_on", _FLAG),
    "PACKET_PAYLOAD_SIZE": ("payload_bytes", _INTEGER),
    "SIMULATOR_STOP_TIME": ("stop_ns", _SECONDS),
    "X_STOP_S": ("stop_ns", _SECONDS),  # the later one counts
    "CC_MODE": ("congestion_control", _INTEGER),
    "ALPHA_RESUME_INTERVAL": ("alpha_interval_us", _INTEGER),
    "RATE_DECREASE_INTERVAL": ("decrease_interval_us", _INTEGER),
    "CLAMP_TARGET_RATE": ("clamps_target_rate", _FLAG),
    "RP_TIMER": ("increase_interval_us", _INTEGER),
    "EWMA_GAIN": ("gain", _FLOAT),
    "FAST_RECOVERY_TIMES": ("fast_recovery_times", _INTEGER),
    "RATE_AI": ("rate_increase_bps", _RATE),
    "RATE_HAI": ("fast_rate_increase_bps", _RATE),
    "MIN_RATE": ("min_rate_bps", _RATE),
    "DCTCP_RATE_AI": ("dctcp_rate_increase_bps", _RATE),
    "L2_CHUNK_SIZE": ("chunk_bytes", _INTEGER),
    "L2_ACK_INTERVAL": ("ack_interval_bytes", _INTEGER),
    "L2_BACK_TO_ZERO": ("back_to_zero", _FLAG),
    "HAS_WIN": ("has_window", _FLAG),
    "GLOBAL_T": ("window_is_global", _FLAG),
    "VAR_WIN": ("window_follows_rate", _FLAG),
    "FAST_REACT": ("fast_react", _FLAG),
    "U_TARGET": ("target_utilisation", _FLOAT),
    "MI_THRESH": ("mi_threshold", _INTEGER),
    "INT_MULTI": ("int_multiplier", _INTEGER),
    "RATE_BOUND": ("is_paced_by_rate", _FLAG),
    "ACK_HIGH_PRIO": ("ack_ignores_pause", _FLAG),
    "KMIN_MAP": ("ecn_min_bytes", _KB_BY_RATE),
    "KMAX_MAP": ("ecn_max_bytes", _KB_BY_RATE),
    "PMAX_MAP": ("ecn_max_probability", _by_rate(float, repr)),
    "BUFFER_SIZE": ("buffer_mib", _INTEGER),
    "X_QBB_ENABLED": ("pfc_is_heeded", _FLAG),
}
FIXED_TEXT = """USE_DYNAMIC_PFC_THRESHOLD 1
TOPOLOGY_FILE topology.txt
FLOW_FILE flow.txt
FCT_OUTPUT_FILE fct_raw.txt
PFC_OUTPUT_FILE pfc.txt
ERROR_RATE_PER_LINK 0.0000
MULTI_RATE 0
SAMPLE_FEEDBACK 0
PINT_LOG_BASE 1.05
PINT_PROB 1.0
LINK_DOWN 0 0 0
ENABLE_TRACE 0
QLEN_MON_FILE /dev/null
QLEN_MON_START 9000000000
QLEN_MON_END 9000000001
"""  # keys that the simulator wants and this model has no use for


def read_case(folder: str | Path) -> Ns3Case:
    """Read a case. Without nexthops.txt next hops stand in descending ids; without paths.txt the hash finds paths."""
    folder = Path(folder)
    n_node, switches, links = _read_topology((folder / "topology.txt").read_text())
    flows = _read_flows((folder / "flow.txt").read_text())
    if (folder / "nexthops.txt").is_file():
        rows = [[int(word) for word in line.split()] for line in (folder / "nexthops.txt").read_text().splitlines()]
        table: NextHops = {(row[0], row[1]): tuple(row[2:]) for row in rows if len(row) > 2}
    else:
        table = shortest_next_hops(n_node, switches, links)
    if (folder / "paths.txt").is_file():
        paths = _read_paths((folder / "paths.txt").read_text(), flows)
    else:
        paths = route_flows(links, flows, table)
    return Ns3Case(n_node, switches, links, flows, table, paths, _read_config((folder / "config.txt").read_text()))


def _read_config(text: str) -> Ns3Config:
    entries = {words[0]: words[1:] for words in map(str.split, text.splitlines()) if len(words) > 1}
    for key in ("MULTI_RATE", "SAMPLE_FEEDBACK"):
        if float(entries.get(key, ["0"])[0]):
            raise ValueError(f"{key} {entries[key][0]} is not in this twin. Accepted: 0")
    values = {name: read(entries[key]) for key, (name, (read, _)) in KEYS.items() if key in entries}
    return Ns3Config(**values)


def _read_topology(text: str) -> tuple[int, tuple[int, ...], tuple[Ns3Link, ...]]:
    words = text.split()
    n_node, n_switch, n_link = map(int, words[:3])
    rows = [words[3 + n_switch + 5 * i : 8 + n_switch + 5 * i] for i in range(n_link)]
    links = tuple(
        Ns3Link(int(a), int(b), parse_quantity(rate), parse_quantity(delay), float(error))
        for a, b, rate, delay, error in rows
    )
    return n_node, tuple(map(int, words[3 : 3 + n_switch])), links


def _read_flows(text: str) -> tuple[Ns3Flow, ...]:
    words = text.split()
    rows = [words[1 + 6 * i : 7 + 6 * i] for i in range(int(words[0]))]
    return tuple(
        Ns3Flow(int(src), int(dst), int(priority), int(dport), int(size_bytes), seconds_to_ns(float(start)))
        for src, dst, priority, dport, size_bytes, start in rows
    )


def _read_paths(text: str, flows: tuple[Ns3Flow, ...]) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    known = {}
    for words in map(str.split, text.splitlines()):
        if words and words[0] != "#":
            data, ack = (tuple(map(int, words[k].split("-"))) for k in (5, 7))
            known[tuple(map(int, words[:4]))] = data, ack
    ports = source_ports(flows)
    return tuple(known[f.src, f.dst, sport, f.dport] for f, sport in zip(flows, ports, strict=True))


def write_case(case: Ns3Case, folder: str | Path) -> None:
    """Write the five files. What `read_case` makes of them is equal to `case`."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.txt").write_text(_config_text(case.config))
    header = f"{case.n_node} {len(case.switches)} {len(case.links)}\n{' '.join(map(str, case.switches))}\n"
    links = (f"{x.end_a} {x.end_b} {x.rate_bps}bps {x.delay_ns}ns {x.error_rate!r}\n" for x in case.links)
    (folder / "topology.txt").write_text(header + "".join(links))
    flows = (f"{f.src} {f.dst} {f.priority} {f.dport} {f.size_bytes} {seconds_text(f.start_ns)}\n" for f in case.flows)
    (folder / "flow.txt").write_text(f"{len(case.flows)}\n" + "".join(flows))
    table = (f"{switch} {dst} {' '.join(map(str, hops))}\n" for (switch, dst), hops in case.next_hops.items())
    (folder / "nexthops.txt").write_text("".join(table))
    paths = (
        f"{f.src} {f.dst} {sport} {f.dport} data {'-'.join(map(str, data))} ack {'-'.join(map(str, ack))}\n"
        for f, sport, (data, ack) in zip(case.flows, source_ports(case.flows), case.paths, strict=True)
    )
    (folder / "paths.txt").write_text("".join(paths))


def _config_text(config: Ns3Config) -> str:
    lines = [f"{key} {write(getattr(config, name))}\n" for key, (name, (_, write)) in KEYS.items()]
    return "".join(lines) + FIXED_TEXT
