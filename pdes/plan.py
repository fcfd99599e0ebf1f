"""What `pdes-sim plan` prints: the run that a config would be, without running it."""

from collections import Counter

import numpy as np

from models.topology.graph import Topology
from partition.placement import balance
from pdes.plan_modes import EVENT_RATE, HOP_RATE, flow_mode_time, mode_facts, seconds_text
from pdes.results.jobs import placement
from pdes.scenario import Scenario
from pdes.scenario.skipping import skipping_facts
from pdes.simulation.memory import expected_bytes, limit_bytes
from pdes.units import format_count, format_duration, format_rate, format_size

RANK_COUNTS = (1, 2, 4, 8, 16, 32)
MOST_LINKS = 5  # kinds of them


def print_plan(scenario: Scenario) -> None:
    """Print nodes, LPs, lookahead, placement balance, memory and expected work."""
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, highlight=False, emoji=False)
    t, plan = scenario.topology, scenario.plan
    hops = int(scenario.port_hops.sum())
    facts = [
        ("topology", f"{t.name}: {t.n_node - t.n_host} switches, {t.n_port // 2} links"),
        ("fabric", _fabric(t)),
        ("workload", ", ".join(_fact(key, value) for key, value in plan.facts.items())),
        *(("placement", placement(part.name, part.facts)) for part in plan.jobs if "placement" in part.facts),
        ("queue pairs", format_count(len(plan.pair_src))),
        *in_server_facts(scenario),
        ("flows, tasks", f"{format_count(plan.n_flow)}, {format_count(plan.n_task)}{_tables(scenario)}"),
        ("payload", format_size(int(plan.pair_bytes.sum()))),
        ("base round-trip time", format_duration(scenario.base_rtt_ps)),
        ("logical processes", f"{scenario.n_lp}, lookahead {format_duration(scenario.lookahead_ps)}"),
        ("delay threshold", _threshold(scenario)),
        *skipping_facts(scenario.config, scenario.parameters),
        *_repeats(scenario),
        ("expected packet-hops", format_count(hops)),
        ("expected loop time", _loop_time(scenario, hops)),
        *mode_facts(scenario),
        ("memory", _memory(scenario)),
    ]
    width = max(len(name) for name, _ in facts)
    for name, text in facts:
        console.print(f"{name:<{width}}  {text}", soft_wrap=True)
    table = Table(title=f"placement: {scenario.placement}", title_justify="left", box=None)
    for heading in ("ranks", "ranks with work", "heaviest / mean", "packet-hops between ranks", "memory per rank"):
        table.add_column(heading, justify="right")
    load, edges = scenario.lp_load(), scenario.lp_edges()
    for n_rank in (n for n in RANK_COUNTS if n == 1 or n <= scenario.n_lp):
        rank_of_lp = scenario.rank_of_lp(n_rank)
        cut = int(edges[2][rank_of_lp[edges[0]] != rank_of_lp[edges[1]]].sum())
        used = len(np.unique(rank_of_lp))
        heaviest, each = f"{balance(load, rank_of_lp, n_rank):.3f}", format_size(expected_bytes(scenario, n_rank))
        table.add_row(str(n_rank), str(used), heaviest, format_count(cut), each)
    console.print()
    console.print(table)


def in_server_facts(s: Scenario) -> list[tuple[str, str]]:
    """What GPUs of one server send each other by their NICs, if anything."""
    t, plan = s.topology, s.plan
    src, dst = t.server[t.host[plan.pair_src]], t.server[t.host[plan.pair_dst]]
    inside = (src == dst) & (plan.pair_src != plan.pair_dst) & (plan.pair_bytes > 0)
    if getattr(s.config.topology, "nvlink", "none") != "none" or not inside.any():
        return []
    size, n_pair = format_size(int(plan.pair_bytes[inside].sum())), format_count(int(inside.sum()))
    text = f"{size} by NICs, on {n_pair} queue pairs"
    return [("inside servers", f'{text}; [topology] nvlink = "packets" has them on NVLink')]


def _tables(s: Scenario) -> str:
    """Behind the number of tasks, if a run leaves no table of them unasked."""
    return "" if s.plan.keeps_tasks or not s.config.output.tasks else " (no table of tasks; output.tasks=true has one)"


def _fabric(t: Topology) -> str:
    """ "32 host, 4 leaf, 4 spine; 32 links of 100 Gbps and 1 us, ..."."""
    nodes = Counter(name.rstrip("0123456789-_.") or "node" for name in t.node_name)
    kinds = Counter(zip(t.port_rate_bps.tolist(), t.port_delay_ps.tolist(), strict=True))
    links = [
        f"{n // 2:,} link{'' if n == 2 else 's'} of {format_rate(rate)} and {format_duration(delay)}"
        for (rate, delay), n in kinds.items()
    ]
    shown = sorted(links)[:MOST_LINKS] + (
        [f"and {len(links) - MOST_LINKS} more kinds"] if len(links) > MOST_LINKS else []
    )
    return f"{', '.join(f'{n:,} {name}' for name, n in nodes.items())}; {', '.join(shown)}"


def _memory(scenario: Scenario) -> str:
    """What one rank takes, and whether that fits here."""
    each, limit = expected_bytes(scenario), limit_bytes(scenario.config)
    if limit is None:
        return f"{format_size(each)} on one rank; no limit"
    verdict = "" if each <= limit else ": does not fit"
    return f"{format_size(each)} on one rank; there is room for {format_size(limit)}{verdict}"


def _repeats(scenario: Scenario) -> list[tuple[str, str]]:
    wormhole, n_iteration = scenario.config.wormhole, scenario.plan.n_iteration
    if not 0 < wormhole.n_repeat < n_iteration:
        return []
    text = f"{n_iteration:,} at most: {wormhole.n_repeat} or more that say the mean of the rest to "
    return [("iterations", f"{text}{100 * wormhole.iteration_tolerance:g} % stand for it; below, all count")]


def _threshold(scenario: Scenario) -> str:
    if scenario.config.partition.delay_threshold_ps is not None:
        return f"{format_duration(scenario.threshold_ps)}, as given"
    return f"auto, {scenario.threshold_reason.removeprefix('threshold ')}"


def _loop_time(scenario: Scenario, hops: int) -> str:
    if not scenario.parameters.has_packets:
        return f"{flow_mode_time(scenario)} on a core at {format_count(EVENT_RATE)} events/s"
    text = f"{seconds_text(hops / HOP_RATE)} on a core at {format_count(HOP_RATE)} packet-hops/s"
    skips = scenario.config.wormhole.may_skip
    return f"{text}, packet by packet; less by what fast-forwarding skips" if skips else text


def _flops(count: float) -> str:
    return f"{count / 1e15:.3g} P" if count >= 1e15 else format_count(count)


def _fact(key: str, value: object) -> str:
    """A fact of the workload plan for people: "gradient bytes per gpu 858 MB to 860 MB"."""
    show = format_size if "bytes" in key else _flops if "flops" in key else format_count
    if isinstance(value, list):
        ends = dict.fromkeys((show(min(value)), show(max(value))))
        text = " to ".join(ends)
    else:
        text = show(value) if isinstance(value, int) else str(value)
    return f"{key.replace('_', ' ')} {text}"
