"""What `pdes-sim plan --ranks` prints: the time that a run would take on so many ranks, and what limits it."""

from partition.placement import place
from partition.round_model import Costs, Prediction, critical_path_ns, lp_totals, predict, reduction_by_table
from pdes.plan_options import Asked
from pdes.scenario import Scenario
from pdes.simulation.profile import Profiled, make_profile, read_profile, write_profile
from pdes.units import format_count, format_duration

NEIGHBOUR_NS = 1_500.0  # a message each way with a neighbour; between two ranks of one machine
PACKET_NS = 60.0  # packed, copied and unpacked


def get_profile(scenario: Scenario, wanted: Asked) -> tuple[Profiled, str]:
    """(the profile, a sentence that says where it comes from)."""
    identity = scenario.identity()
    if wanted.profile is not None and wanted.profile.exists():
        return read_profile(wanted.profile, identity), f"read from {wanted.profile}"
    found = make_profile(scenario, wanted.seconds)
    if wanted.profile is None:
        return found, "made now"
    write_profile(wanted.profile, found, identity)
    return found, f"made now, kept in {wanted.profile}"


def predictions(scenario: Scenario, profiled: Profiled, ranks: list[int], costs: Costs) -> list[Prediction]:
    """For every rank count. LPs are placed by what they took, as re-balancing does, or by what is expected of them."""
    s, found = scenario, []
    load = lp_totals(profiled.profile, s.n_lp) if s.config.partition.rebalance else s.lp_load()
    for n_rank in ranks:
        rank_of_lp = place(load, s.lp_edges(), n_rank, s.config.partition.placement)
        found.append(predict(profiled.profile, rank_of_lp, n_rank, costs))
    return found


def print_ranks(scenario: Scenario, wanted: Asked) -> None:
    """Print a row per rank count."""
    from rich.console import Console
    from rich.table import Table

    profiled, origin = get_profile(scenario, wanted)
    costs = Costs(reduction_by_table(wanted.reduction_ns), NEIGHBOUR_NS, PACKET_NS)
    found = predictions(scenario, profiled, wanted.ranks, costs)
    scale = 1.0 if profiled.is_whole else 1.0 / max(profiled.share, 1e-12)
    console, p = Console(markup=False, highlight=False, emoji=False), profiled.profile
    console.print()
    console.print(
        f"profile ({origin}): {profiled.seconds:.1f} s of wall time on one rank, {format_count(p.n_round)} rounds, "
        f"{format_duration(profiled.simulated_ps)} simulated, {format_count(profiled.hops)} packet-hops"
        + (", to the run's end" if profiled.is_whole else f", {100 * profiled.share:.2g} % of those expected"),
        soft_wrap=True,
    )
    if not profiled.is_whole:
        text = "The rest is taken to be like it"
        text += "; what will be skipped is not known" if scenario.config.wormhole.mode != "off" else ""
        console.print(f"{text}: times below are of the whole run.", soft_wrap=True)
    points = ", ".join(f"{format_duration(round(ns * 1000))} on {n}" for n, ns in sorted(wanted.reduction_ns.items()))
    said = "as given" if wanted.is_given else "assumed; --reduction gives your cluster's"
    console.print(
        f"a reduction takes {points} ranks ({said}); {format_count(p.n_reduction)} rounds need one where not all ranks "
        "are neighbours",
        soft_wrap=True,
    )
    path_ns = critical_path_ns(p)
    most = (float(p.ns.sum()) + p.n_round * p.fixed_ns + p.serial_ns) / max(path_ns, 1.0)
    console.print(
        f"critical path {_time(path_ns * scale)}: the longest LP of every round; no number of ranks is more than "
        f"{most:.1f} times as fast as one",
        soft_wrap=True,
    )
    table = Table(box=None, padding=(0, 1, 0, 0))
    for heading in ("ranks", "loop time", "speedup", "efficiency", "work", "uneven", "deciding", "messages", "limit"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in found:
        shares = (row.work_ns + row.round_ns, row.imbalance_ns, row.serial_ns, row.communication_ns)
        parts = [f"{100 * ns / row.total_ns:.0f} %" if row.total_ns else "-" for ns in shares]
        table.add_row(
            str(row.n_rank), _time(row.total_ns * scale), f"{row.speedup:.2f}", f"{100 * row.efficiency:.0f} %", *parts,
            row.limit,
        )  # fmt: skip
    console.print(table)


def _time(ns: float) -> str:
    return format_duration(round(ns * 1000))
