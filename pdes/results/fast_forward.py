"""What results say of iterations that were not simulated, because those before them repeat.

In `result.json`, "fast_forward" has the counts; tables and the other counts hold what was simulated, times go on to the
end of the last iteration.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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


AUDITED_KINDS = {  # name under "audit" -> what is drawn
    "waves": "waves",
    "lanes": "messages that could have had lanes",
    "groups": "groups that could have gone on together",
}


def audit_text(result: Mapping[str, Any]) -> str:
    """The lines of the summary on what was simulated to be compared, "" if there is nothing to say."""
    facts = result.get("fast_forward", {}).get("audit")
    if not facts:
        return ""
    text = f"Audit: {facts['skips_audited']:,} of {facts['skips']:,} skips simulated instead"
    texts = [text + _off_by(facts, "rate_error", "of a flow's rate")]
    for kind, what in AUDITED_KINDS.items():
        found = facts.get(kind)
        if found and found["audited"]:
            n_void = f", {found['void']:,} of them in vain" if found["void"] else ""
            text = f"{found['audited']:,} {what} simulated instead{n_void}"
            texts.append(text + _off_by(found, "fct_error", "of a completion time"))
    return ". ".join(texts)


def _off_by(facts: Mapping[str, Any], error: str, of: str) -> str:
    """By how much what was simulated would have been off; error: ending of the names."""
    if facts[f"mean_{error}"] is None:
        return ""
    mean, most = f"{100 * facts[f'mean_{error}']:.2g} %", f"{100 * facts[f'max_{error}']:.2g} %"
    spread = "" if facts["standard_error"] is None else f" (standard error {100 * facts['standard_error']:.2g} %)"
    return f"; they would have been off by {mean} {of} on average{spread}, by {most} at most"
