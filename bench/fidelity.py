"""How far a run's results are from those of the same config simulated in full: differences of tables, nothing else.

Every error is relative to the full run and has no sign. Rows are matched by what identifies them (a flow's id, a
packet's first byte), and what only one run has is left out: shares say how much that is.
"""

from collections.abc import Mapping, Sequence

import numpy as np

Columns = Mapping[str, np.ndarray]
"""int64 columns of one length, -1 where there is no value."""
PERCENTILES = (1, 10, 50, 90, 99)


def event_skip(packet_hops: int, full_packet_hops: int) -> float:
    """Share of the full run's packet-hops that were not simulated."""
    return 1 - packet_hops / full_packet_hops if full_packet_hops else 0.0


def matched(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows with equal keys in both, in the order of the keys; of equal keys within one, the first."""
    return np.intersect1d(one, other, return_indices=True)[1:]


def flow_errors(full: Columns, other: Columns) -> dict[str, float | None]:
    """Differences of completion times of the flows that finished in both runs, and of their distribution.

    Columns flow_id, finish_ps, fct_ps. last_end: when the last of them finished. distribution: the largest of the
    percentiles'. ks_distance: between the distributions; large where many flows took exactly the same time, however
    small the shift. None: there is no such flow.
    """
    full, other = finished(full), finished(other)
    i_full, i_other = matched(full["flow_id"], other["flow_id"])
    out: dict[str, float | None] = {
        "flows_matched": len(i_full),
        "flow_coverage": _share(len(i_full), len(full["fct_ps"])),
    }
    names = ("mean_fct", "p99_fct", "max_fct", "last_end", "distribution", "ks_distance")
    if not len(i_full):
        return out | dict.fromkeys((*names, *(f"p{p}_of_distribution" for p in PERCENTILES)))
    fct_ps, other_fct_ps = full["fct_ps"][i_full], other["fct_ps"][i_other]
    each = np.abs(other_fct_ps - fct_ps) / fct_ps
    quantiles = [np.percentile(values, PERCENTILES) for values in (fct_ps, other_fct_ps)]
    moved = np.abs(quantiles[1] - quantiles[0]) / quantiles[0]
    values = (
        each.mean(), np.percentile(each, 99), each.max(),
        relative(int(full["finish_ps"][i_full].max()), int(other["finish_ps"][i_other].max())),
        moved.max(), ks_distance(fct_ps, other_fct_ps),
    )  # fmt: skip
    out |= {name: float(value) for name, value in zip(names, values, strict=True)}
    return out | {f"p{p}_of_distribution": float(value) for p, value in zip(PERCENTILES, moved, strict=True)}


def finished(flows: Columns) -> dict[str, np.ndarray]:
    """The rows of flows that finished."""
    rows = np.flatnonzero(flows["fct_ps"] >= 0)
    return {name: column[rows] for name, column in flows.items()}


def ks_distance(one: np.ndarray, other: np.ndarray) -> float:
    """Kolmogorov-Smirnov: the largest difference between two empirical distribution functions, 0..1; neither empty."""
    at = np.concatenate([one, other])
    shares = [np.searchsorted(np.sort(values), at, side="right") / len(values) for values in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def relative(full: int, other: int) -> float:
    """|other - full| / full; 0 if both are 0."""
    return abs(other - full) / abs(full) if full else float(other != 0)


def iteration_error(full_ps: Sequence[int], other_ps: Sequence[int]) -> float | None:
    """Mean error of the iterations' times; None if there are none, or not as many."""
    if not full_ps or len(full_ps) != len(other_ps):
        return None
    return float(np.mean([relative(a, b) for a, b in zip(full_ps, other_ps, strict=True)]))


def rtt_errors(full: Columns, other: Columns) -> dict[str, float | None]:
    """Root of the mean squared difference of round-trip times over their mean, of packets that both runs simulated.

    Columns sequence, rtt_ps of one flow. coverage: those packets' share of the full run's. None: there are none.
    """
    i_full, i_other = matched(full["sequence"], other["sequence"])
    coverage = _share(len(i_full), len(full["sequence"]))
    if not len(i_full):
        return {"rtt_nrmse": None, "rtt_coverage": coverage}
    rtt_ps, other_rtt_ps = full["rtt_ps"][i_full], other["rtt_ps"][i_other]
    error = float(np.sqrt(np.mean((other_rtt_ps - rtt_ps).astype(np.float64) ** 2)) / rtt_ps.mean())
    return {"rtt_nrmse": error, "rtt_coverage": coverage}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
