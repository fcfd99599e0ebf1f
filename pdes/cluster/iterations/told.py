"""What results and the summary say of iteration times that were run."""

from typing import Any

from pdes.cluster.iterations.speeds import RunSpeeds
from pdes.units import PS_PER_S


def iteration_times(runs: RunSpeeds) -> dict[str, Any]:
    """`result.json`: every case that was asked for, by what it is about."""
    return {
        text: {"iteration_s": entry.time_ps / PS_PER_S, "how_sure": entry.how_sure}
        | ({"in_packets_s": runs.checked[text][1] / PS_PER_S} if text in runs.checked else {})
        for text, entry in sorted(runs.used.items())
    }


def runs_text(runs: RunSpeeds) -> str:
    """A line for people."""
    known = len(runs.used) - min(runs.n_run, len(runs.used))
    text = f"Iteration times: {len(runs.used):,} cases, {runs.n_run:,} of them run now, {known:,} known before"
    if runs.checked:
        errors = [abs(flow - packets) / packets for flow, packets in runs.checked.values()]
        mean, most = sum(errors) / len(errors), max(errors)
        text += f"; {len(errors):,} run in packets, too: off by {mean:.2%} in the mean, {most:.2%} at most"
    return f"{text}; {runs.memo.n_bad} damaged lines of the memo left out" if runs.memo.n_bad else text
