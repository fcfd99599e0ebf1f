"""What `pdes-sim plan --ranks` prints: the time that a run would take on so many ranks, and what limits it."""

from collections.abc import Sequence

import numpy as np

from partition.rebalance import MAX_DRIFT_FRAC
from partition.round_model import Costs, Prediction, predict, reduction_by_table
from pdes.plan_options import Asked
from pdes.scenario import Scenario
from pdes.simulation.profile.make import SAMPLED, WHOLE, Profiled, make_profile
from pdes.simulation.profile.profile_file import read_profile, write_profile
from pdes.units import format_count, format_duration

NEIGHBOUR_NS = 1_500.0  # a message each way with a neighbour; between two ranks of one machine
PACKET_NS = 20.0  # packed, copied and unpacked, less what smaller tables on each rank save
LOW_FRAC = 0.5  # an efficiency below it is explained
LIMITS = {  # Prediction.limit -> what to say of it
    "rounds": "what rounds cost even if nothing happens in them, which every rank pays for every round",
    "longest LP": "the critical path: one logical process has more to do in a round than a rank's fair share, and no "
    "placement cuts it in two",
    "imbalance": "imbalance: rounds wait for the rank that has most in them",
    "reductions": "reductions: rounds that begin with one, over all ranks",
    "exchanges": "messages: an exchange with every neighbour in every round",
    "packets": "messages: packets that are packed and unpacked where they cross between ranks",
    "decisions": "decisions of fast-forwarding, which every rank makes",
}


def get_profile(scenario: Scenario, wanted: Asked) -> tuple[Profiled, str]:
    """(the profile, a sentence that says where it comes from)."""
    identity = scenario.identity()
    if wanted.profile is not None and wanted.profile.exists():
        return read_profile(wanted.profile, identity), f"read from {wanted.profile}"
    found = make_profile(scenario, wanted.seconds, quiet=False)
    if wanted.profile is None:
        return found, "made now"
    write_profile(wanted.profile, found, identity)
    return found, f"made now, kept in {wanted.profile}"


def predictions(scenario: Scenario, profiled: Profiled, ranks: list[int], costs: Costs) -> list[Prediction]:
    """For every rank count."""
    return [predict(profiled.run, placements(scenario, profiled, n), n, costs) for n in ranks]


def placements(scenario: Scenario, profiled: Profiled, n_rank: int) -> list[np.ndarray]:
    """Of LPs, int64[n_lp], in every stretch: by what is expected of them and, as re-balancing looks every so often, by
    what they took.

    A stretch that stands for longer than that has the placement that fits it.
    """
    s, stretches, found = scenario, profiled.run.stretches, []
    partition, now = s.config.partition, s.rank_of_lp(n_rank)
    if not partition.rebalance or not 1 < n_rank < s.n_lp:
        return [now] * len(stretches)
    load = np.zeros(s.n_lp)
    for p in stretches:
        load += p.weight * np.bincount(p.lp, weights=p.ns, minlength=s.n_lp)
        by_rank = np.bincount(now, weights=load, minlength=n_rank)
        if by_rank.mean() > partition.rebalance_interval_ps / 1000:
            if by_rank.max() > (1 + MAX_DRIFT_FRAC) * by_rank.mean():
                now = s.rank_of_lp(n_rank, load)
            load[:] = 0
        found.append(now)
    return found


def print_ranks(scenario: Scenario, wanted: Asked) -> None:
    """Print a row per rank count."""
    from rich.console import Console
    from rich.table import Table

    profiled, origin = get_profile(scenario, wanted)
    costs = Costs(reduction_by_table(wanted.reduction_ns), NEIGHBOUR_NS, PACKET_NS)
    found = predictions(scenario, profiled, wanted.ranks, costs)
    console, run = Console(markup=False, highlight=False, emoji=False), profiled.run
    points = ", ".join(f"{format_duration(round(ns * 1000))} on {n}" for n, ns in sorted(wanted.reduction_ns.items()))
    said = "as given" if wanted.is_given else "assumed; --reduction gives your cluster's"
    console.print()
    for text in (
        *_what_was_sampled(scenario, profiled, origin),
        f"a reduction takes {points} ranks ({said}); {format_count(run.n_reduction)} of {format_count(run.n_round)} "
        "rounds need one where not all ranks are neighbours; a message to and from a neighbour takes "
        f"{_time(NEIGHBOUR_NS)}, a packet that crosses {_time(PACKET_NS)} (as between two ranks of one machine)",
        f"critical path {_time(run.critical_path_ns)}: the longest LP of every round; no number of ranks is more than "
        f"{run.one_rank_ns / max(run.critical_path_ns, 1.0):.1f} times as fast as one",
    ):
        console.print(text, soft_wrap=True)
    table = Table(box=None, padding=(0, 1, 0, 0))
    for heading in ("ranks", "loop time", "speedup", "efficiency", "work", "uneven", "deciding", "messages", "limit"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in found:
        uneven_ns = row.path_ns + row.imbalance_ns
        shares = (row.work_ns + row.round_ns, uneven_ns, row.serial_ns, row.communication_ns)
        parts = [f"{100 * ns / row.total_ns:.0f} %" if row.total_ns else "-" for ns in shares]
        table.add_row(
            str(row.n_rank), _time(row.total_ns), f"{row.speedup:.2f}", f"{100 * row.efficiency:.0f} %", *parts,
            row.limit,
        )  # fmt: skip
    console.print(table)
    for text in (*_why_low(found), *_where_alone(scenario, found)):
        console.print(text, soft_wrap=True)


def _what_was_sampled(scenario: Scenario, profiled: Profiled, origin: str) -> list[str]:
    """Sentences that say which part of the run the prediction is made of."""
    at, share = profiled.at_ps, f"{100 * profiled.share:.3g} %"
    begin = f"profile ({origin}, {profiled.seconds:.1f} s on one rank): "
    sizes = f"{format_count(profiled.hops)} packet-hops simulated"
    if profiled.kind == WHOLE:
        return [f"{begin}the whole run, {format_duration(profiled.simulated_ps)} of simulated time, {sizes}"]
    skips = scenario.config.wormhole.may_skip
    rest = "the rest is taken to be like it" + ("; what will be skipped there is not known" if skips else "")
    if profiled.kind != SAMPLED:
        text = f"{begin}the first {format_duration(profiled.simulated_ps)} of simulated time, {sizes}"
        return [f"{text}, {share} of those expected are behind it", f"{rest}: times below are of the whole run"]
    upto = "the whole run" if profiled.is_whole else f"the first {format_duration(profiled.simulated_ps)} of the run"
    text = f"{begin}{len(at)} stretches, packet by packet, of {upto}, which was fast-forwarded between them; "
    text += f"it has {share} of the packet-hops, and the stretches stand for "
    text += "all of them" if profiled.is_whole else f"these; {rest} (--profile-time gives it longer)"
    return [text, _phases(profiled)]


def _phases(profiled: Profiled) -> str:
    """Where the stretches are, and what of the packet-hops by quarters of the time."""
    at, end_ps = profiled.at_ps, max(1, profiled.simulated_ps)
    quarter = np.minimum(4 * at // end_ps, 3)
    work = np.array([p.weight * float(p.ns.sum()) for p in profiled.run.stretches[: len(at)]])
    shares = 100 * np.bincount(quarter, weights=work, minlength=4) / max(float(work.sum()), 1e-12)
    counts = np.bincount(quarter, minlength=4)
    parts = ", ".join(f"{share:.0f} % ({n})" for share, n in zip(shares, counts, strict=True))
    rates = np.array([float(p.ns.sum()) / max(p.n_round, 1) for p in profiled.run.stretches[: len(at)]]) / 1000
    return (
        f"by quarters of simulated time, share of the work (stretches): {parts}; a round takes {rates.min():.3g} to "
        f"{rates.max():.3g} us of it, {profiled.run.work_ns / max(profiled.run.n_round, 1) / 1000:.3g} us on average"
    )


def _why_low(found: Sequence[Prediction]) -> list[str]:
    """Which bound it is where the efficiency falls below LOW_FRAC, in words."""
    lines: list[str] = []
    said = ""
    for row in found:
        if row.n_rank == 1 or row.efficiency >= LOW_FRAC or row.limit == said:
            continue
        said = row.limit
        parts = sorted(row.losses.items(), key=lambda item: -item[1])[:3]
        much = [f"{name} {100 * ns / row.total_ns:.0f} %" for name, ns in parts if ns >= 0.01 * row.total_ns]
        text = f"{row.n_rank} ranks, {100 * row.efficiency:.0f} % efficiency: held back by {LIMITS.get(said, said)}"
        lines.append(f"{text} (of the loop: {', '.join(much)}; work {100 * row.work_ns / row.total_ns:.0f} %)")
    return lines


def _where_alone(scenario: Scenario, found: Sequence[Prediction]) -> list[str]:
    """Where rank 0 does it all, as all ranks together would take longer."""
    slower = [row for row in found if row.speedup < 1]
    if not slower or not scenario.may_begin_alone:
        return []
    counts = ", ".join(str(row.n_rank) for row in slower)
    text = f"on {counts} ranks rank 0 will go on alone, in about {_time(slower[0].one_rank_ns)}, as it is faster so "
    return [f'{text}([partition] start = "auto")']


def _time(ns: float) -> str:
    return format_duration(round(ns * 1000))
