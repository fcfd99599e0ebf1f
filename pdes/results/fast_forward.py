"""What results say of iterations that were not simulated, because those before them repeat.

In `result.json`, "fast_forward" has the counts; tables and the other counts hold what was simulated, times go on to the
end of the last iteration.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pdes.results.flow_mode import calibration_text
from pdes.units import format_duration


class Iterations(NamedTuple):
    """The whole iterations of a run."""

    time_ps: list[int]  # of those that were simulated, then of the others
    n_simulated: int
    extrapolated_ps: int  # from the end of what was simulated to the end of the run
    bound: float | None  # of the error of the mean of those compared last, relative; None: there were too few
    cycle: int | None  # how many of them make a turn

    def facts(self) -> dict[str, Any]:
        """What they put under "fast_forward" in `result.json`."""
        return {
            "iterations_simulated": self.n_simulated,
            "iterations_extrapolated": len(self.time_ps) - self.n_simulated,
            "iteration_error_bound": self.bound,
            "iteration_cycle": self.cycle,
            "extrapolated_time_ps": self.extrapolated_ps,
        }


def extrapolate(
    simulated_ps: Sequence[int], agreed_ps: Sequence[int], n_left: int, last_ps: int, stop_ps: int | None,
    bound: float | None, cycle: int | None,
) -> Iterations:  # fmt: skip
    """Add the iterations that were left out, each as long as the mean of those that stand for them (rounded down).

    simulated_ps: times of the whole simulated iterations. agreed_ps: empty if nothing was left out. n_left: how many
    were. last_ps: end of the simulation. stop_ps: of the config: an iteration that would end later has no time.
    bound, cycle: as in `Iterations`.
    """
    if not agreed_ps:
        return Iterations(list(simulated_ps), len(simulated_ps), 0, bound, cycle)
    each_ps, n = sum(agreed_ps) // len(agreed_ps), n_left
    end_ps = last_ps + n_left * each_ps
    if stop_ps is not None:
        n = min(n_left, (stop_ps - sum(simulated_ps)) // max(each_ps, 1))
        end_ps = min(end_ps, stop_ps)
    return Iterations([*simulated_ps, *[each_ps] * n], len(simulated_ps), end_ps - last_ps, bound, cycle)


def simulated_ps(result: Mapping[str, Any]) -> int:
    """How much time was simulated, without what was extrapolated. result: as in `result.json`."""
    return result["simulated_time_ps"] - result.get("fast_forward", {}).get("extrapolated_time_ps", 0)


def last_simulated(result: Mapping[str, Any]) -> int:
    """The last whole iteration that the tables hold, -1 if none."""
    n_all = len(result.get("iteration_time_ps") or [])
    return min(n_all, result.get("fast_forward", {}).get("iterations_simulated", n_all)) - 1


def simulated_text(result: Mapping[str, Any]) -> str:
    """How much time was simulated, in words."""
    text = f"Simulated {format_duration(simulated_ps(result), 4)}"
    if simulated_ps(result) < result["simulated_time_ps"]:
        text += f", extrapolated to {format_duration(result['simulated_time_ps'], 4)}"
    return text


def iterations_text(result: Mapping[str, Any]) -> str:
    """The line of the summary, "" if there is nothing to say."""
    facts = result.get("fast_forward", {})
    if facts.get("iteration_error_bound") is None:
        return ""
    bound, n_left = f"{100 * facts['iteration_error_bound']:.2g} %", facts["iterations_extrapolated"]
    if not n_left:
        return f"Iterations: all simulated; the last of them say the mean of more to about {bound}"
    n_all = facts["iterations_simulated"] + n_left
    turns = "" if facts["iteration_cycle"] == 1 else ", which take turns"
    return (
        f"Iterations: {facts['iterations_simulated']:,} of {n_all:,} simulated, {n_left:,} extrapolated from the last "
        f"of them{turns}, their mean to about {bound}; tables and counts are of those simulated"
    )


def passes_text(result: Mapping[str, Any]) -> str:
    """The line of the summary on passes of a schedule's loop that were left out, "" if none were."""
    found = result.get("fast_forward", {}).get("passes") or {}
    if not found.get("skipped"):
        return ""
    bound = f"{100 * max(jump['error_bound'] for jump in found['jumps']):.2g} %"
    return (
        f"Microbatches: {found['skipped']:,} passes of the pipeline's loop left out, "
        f"{format_duration(found['skipped_time_ps'], 4)} in all, as others repeat; their mean to about {bound}"
    )


CAUSES = {  # forecast ("alone" and "shares": flow level) -> causes by which `result.json` counts what was skipped
    "periodic": ("steady",),
    "replay": ("memo", "memo_file", "follower"),
    "similar": ("wave",),
    "flow level": ("fluid",),
    "microbatches": ("pass",),
}
AUDITED = {  # forecast -> where "audit" in `result.json` has it, name of its error there, and what that is of
    "periodic": ("", "rate_error", "of rates"),
    "similar": ("waves", "fct_error", "of completion times"),
    "flow level": ("fluid", "fct_error", "of completion times"),
    "flow mode": ("flow_mode", "fct_error", "of completion times"),
}


def how_sure_text(result: Mapping[str, Any]) -> str:
    """The line of the summary that says what was foretold, and how far off that is known to be; "" if nothing was."""
    facts = result.get("fast_forward", {})
    if "flow_mode" in facts:
        numbers = result.get("config", {}).get("wormhole", {}).get("flow", {}).get("numbers", {})
        n_packet, n_rate = (facts["flow_mode"].get(name, 0) for name in ("as_packets", "messages"))
        what = f"{n_packet:,} messages as packets, {n_rate:,} at rates" if n_packet else "no packet was simulated"
        audit = f"; {_audit(facts['audit'])}" if "audit" in facts else ""
        return f"How sure: flow mode, {what}{audit}; {calibration_text(numbers)}"
    skipped, audit = result.get("skipped_packet_hops", 0), facts.get("audit")
    if not skipped and not audit:
        return ""
    n_hop = skipped + result.get("packet_hops", 0)
    by_cause = facts.get("skipped_packet_hops", {})
    hops = {name: sum(by_cause.get(cause, 0) for cause in causes) for name, causes in CAUSES.items()}
    shares = {name: _percent(n / max(n_hop, 1)) for name, n in hops.items() if n}
    by_forecast = f" ({', '.join(f'{name} {share}' for name, share in shares.items())})" if shares else ""
    what = f"{_percent(skipped / max(n_hop, 1))} of packet-hops skipped{by_forecast}" if skipped else "nothing skipped"
    return f"How sure: {what}; {_audit(audit) if audit else _no_audit(hops)}"


def _audit(facts: Mapping[str, Any]) -> str:
    """What an audit found."""
    found = []
    for name, (kind, error, of) in AUDITED.items():
        mine = facts.get(kind, {}) if kind else facts
        mean, n = mine.get(f"mean_{error}"), mine.get("audited" if kind else "skips_audited", 0)
        if mean is not None:
            spread = "" if mine["standard_error"] is None else f" (standard error {_percent(mine['standard_error'])})"
            found.append(f"{name} {_percent(mean)} {of} in {n:,}{spread}")
    if found:
        return f"audit, mean error: {', '.join(found)}"
    return "the audit drew nothing that can be compared: take a larger [wormhole] audit, or another seed"


def _no_audit(hops: Mapping[str, int]) -> str:
    """What is known without one."""
    if any(hops[name] for name in AUDITED if name in hops) or not any(hops.values()):
        return "nothing was audited: [wormhole] audit = 0.05 would measure the error"
    return "replay is exact" if hops["replay"] else "the line on microbatches bounds their error"


def _percent(share: float) -> str:
    if 0.9995 <= share < 1:
        return "over 99.9 %"
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.3g} %"
