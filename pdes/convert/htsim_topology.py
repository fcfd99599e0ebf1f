"""htsim's fat-tree files (`.topo`): two or three tiers of switches, each with its radix, speed and latency down.

A tier's Bundle is how many links join one of its switches with one below. In a tree of three tiers each aggregation
switch j of a pod leads to the cores from j times (Radix_Up over the cores' Bundle) on. Latency of the switches, if it
is the same in all tiers, becomes [network] switch_latency.
"""

from pathlib import Path
from typing import NamedTuple

from pdes.convert.toml_text import Tables
from pdes.convert.topology_text import Link, read_text, reference, topology_text, write_case
from pdes.errors import ConfigError
from pdes.files import whole_within
from pdes.units import PS_PER_NS, exact_duration

BPS_PER_GBPS = 10**9
HEAD_KEYS = ("Nodes", "Tiers", "Podsize")
TIER_KEYS = (
    "Downlink_speed_Gbps", "Radix_Down", "Radix_Up", "Downlink_Latency_ns", "Switch_Latency_ns", "Oversubscribed",
    "Bundle", "Queue_Down", "Queue_Up",
)  # fmt: skip
MAX_NODES, MAX_LINKS = 2**20, 2**24


class Tier(NamedTuple):
    """One tier of switches."""

    radix_down: int
    radix_up: int
    bundle: int
    rate_bps: int
    delay_ps: int
    switch_ps: int


def read_tiers(path: Path) -> tuple[int, int, list[Tier]]:
    """(hosts, hosts per pod, tiers from the lowest). ConfigError names the line."""
    head: dict[str, int] = {}
    tiers: list[dict[str, int]] = []
    for number, line in read_text(path, "an htsim .topo file"):
        words, where = line.split(), f"{path}, line {number}"
        known = (*HEAD_KEYS, "Tier") if not tiers else (*TIER_KEYS, "Tier")
        if len(words) != 2 or words[0] not in known:
            raise ConfigError(where, f"found {line[:60]!r}", f"{', '.join(known)}, each with a number")
        value = whole_within(words[1], 10**9, where, words[0])
        if words[0] == "Tier":
            if value != len(tiers):
                raise ConfigError(where, f"tier {value}", f"tier {len(tiers)}, as they stand in order")
            tiers.append({})
        else:
            (tiers[-1] if tiers else head)[words[0]] = value
    if any(key not in head for key in HEAD_KEYS) or head["Tiers"] not in (2, 3) or len(tiers) != head["Tiers"]:
        said = ", ".join(f"{key} {value}" for key, value in head.items()) or "nothing"
        found = f"{len(tiers)} tiers, and the head says {said}"
        raise ConfigError(f"{path}, end of file", found, "Nodes, Tiers 2 or 3, Podsize, and as many tiers")
    return head["Nodes"], head["Podsize"], [_tier(path, i, tier, len(tiers)) for i, tier in enumerate(tiers)]


def _tier(path: Path, i_tier: int, tier: dict[str, int], n_tier: int) -> Tier:
    up = ("Radix_Up",) if i_tier + 1 < n_tier else ()
    needed = ("Downlink_speed_Gbps", "Radix_Down", "Downlink_Latency_ns", *up)
    for key in needed:
        if tier.get(key, -1) < (0 if key.endswith("ns") else 1):
            raise ConfigError(f"{path}, tier {i_tier}", f"{key} {tier.get(key, 'missing')}", f"{key} of at least 1")
    return Tier(
        tier["Radix_Down"], tier.get("Radix_Up", 0), tier.get("Bundle", 1) or 1,
        tier["Downlink_speed_Gbps"] * BPS_PER_GBPS, tier["Downlink_Latency_ns"] * PS_PER_NS,
        tier.get("Switch_Latency_ns", 0) * PS_PER_NS,
    )  # fmt: skip


def fat_tree_links(path: Path, n_host: int, pod: int, tiers: list[Tier]) -> tuple[int, list[int], list[Link]]:
    """(nodes, switches, links): hosts, then switches tier by tier. ConfigError: radices that do not fit together."""
    low, second = tiers[0], tiers[1]
    is_flat = len(tiers) == 2
    pod = n_host if is_flat else pod
    if not 1 <= n_host <= MAX_NODES or pod < 1 or n_host % pod:
        raise _misfit(path, f"key Nodes: {n_host} in pods of {pod}")
    if pod % low.radix_down:
        raise _misfit(path, f"tier 0: Radix_Down {low.radix_down} in pods of {pod}")
    if low.radix_up % second.bundle:
        raise _misfit(path, f"tier 1: Bundle {second.bundle} for Radix_Up {low.radix_up} of tier 0")
    n_low, n_pod, per_pod = n_host // low.radix_down, n_host // pod, low.radix_up // second.bundle
    low_per_pod = pod // low.radix_down
    if second.radix_down != low_per_pod * second.bundle:
        found = f"tier 1: Radix_Down {second.radix_down} for {low_per_pod} switches x {second.bundle} links"
        raise _misfit(path, found)
    n_second = per_pod * n_pod
    for i, n_link in enumerate((n_low * low.radix_up, 0 if is_flat else n_second * second.radix_up)):
        if n_link > MAX_LINKS:
            raise ConfigError(f"{path}, tier {i}", f"{n_link} links up", f"at most {MAX_LINKS}")
    links: list[Link] = [(h, n_host + h // low.radix_down, low.rate_bps, low.delay_ps) for h in range(n_host)]
    for s in range(n_low):
        for k in range(per_pod):
            upper = n_host + n_low + s // low_per_pod * per_pod + k
            links += [(n_host + s, upper, second.rate_bps, second.delay_ps)] * second.bundle
    n_top = 0
    if not is_flat:
        top = tiers[2]
        if second.radix_up % top.bundle or top.radix_down != n_pod * top.bundle:
            raise _misfit(path, f"tier 2: Radix_Down {top.radix_down} for {n_pod} pods x {top.bundle} links")
        per_switch = second.radix_up // top.bundle
        n_top = per_switch * per_pod
        for s in range(n_second):
            for k in range(per_switch):
                core = n_host + n_low + n_second + s % per_pod * per_switch + k
                links += [(n_host + n_low + s, core, top.rate_bps, top.delay_ps)] * top.bundle
    n_node = n_host + n_low + n_second + n_top
    return n_node, list(range(n_host, n_node)), links


def _misfit(path: Path, found: str) -> ConfigError:
    return ConfigError(str(path), found, "pods, radices and bundles that divide each other")


def convert(topology: Path, output: Path, workload: Path, form: str) -> list[str]:
    """Write a config, and its topology, for a fat-tree and a workload; warnings for people."""
    n_host, pod, tiers = read_tiers(topology)
    table: dict[str, object] = {"kind": "trace", "format": form, "file": reference(workload, output)}
    network: dict[str, object] = {}
    latencies = {tier.switch_ps for tier in tiers}
    if latencies != {0}:
        network["switch_latency"] = exact_duration(max(latencies))
    warnings = [f"{topology}: switch latencies differ, the longest is taken for all"] if len(latencies) > 1 else []
    tables: Tables = {"workload": table, "network": network}
    text = topology_text(*fat_tree_links(topology, n_host, pod, tiers))
    write_case(output, "Made by `pdes-sim convert htsim`.", text, tables)
    return warnings
