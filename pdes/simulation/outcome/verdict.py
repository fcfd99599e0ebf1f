"""Whether a run came to its end, and why not: every flow and task, or the stop time that was asked for."""

from typing import Any

from models.network.watch.blocked import find_circle
from pdes.engine.time_index import NEVER
from pdes.errors import SimError
from pdes.results.pauses import deadlock_text
from pdes.simulation.job import Run
from pdes.simulation.outcome.facts import deadlocks
from pdes.units import format_duration

MOST_LINES = 20  # about who waits


def check_end(job: Run, totals: dict[str, Any]) -> None:
    """Raise SimError if a run without a stop time ended before its workload; with a deadlock there are results."""
    assembly = job.assembly
    n_left = assembly.n_flow - totals["n_flow_done"]
    ends_early = job.scenario.stop_ps is not None or assembly.debug.stopped_ps is not None
    if assembly.stall is not None and assembly.is_stalled:
        stalled = [item.text for item in sorted(totals["stalled"], key=lambda item: item.node)]
        lines = [f"{n_left} flows are unfinished", *_listed(stalled)]
        lines.append("Links that are down or lose everything may be why; [simulation] stop_time ends a run anyway")
        since = format_duration(assembly.stall.since_ps, 3)
        text = f"the run cannot go on: since {since} at the latest every packet is lost that is sent, and "
        text += "nothing is to come that changes it"
        raise SimError(text + "\n  " + "\n  ".join(lines))
    if ends_early or assembly.circles or not (totals["blocked"] or n_left):
        return
    if totals["last_ps"] > NEVER // 8:
        text = f"the run would pass {format_duration(NEVER)} of simulated time, the most that there is, with "
        raise SimError(f"{text}{n_left} flows unfinished. Check the rates, delays and sizes of the config")
    lines = [f"{n_left} flows are unfinished", *_who_waits(job, totals)]
    raise SimError("the run cannot go on: nothing is left to happen, but\n  " + "\n  ".join(lines))


def _who_waits(job: Run, totals: dict[str, Any]) -> list[str]:
    """Lines that say who waits for whom; first a circle, if there is one."""
    blocked = sorted(totals["blocked"], key=lambda item: item.node)  # the same on any number of ranks
    names = [job.scenario.topology.node_name[node] for node in find_circle(blocked)]
    circle = [f"a circle: {' waits for '.join([*names, names[0]])}"] if names else []
    return circle + _listed([item.text for item in blocked])


def _listed(texts: list[str]) -> list[str]:
    """Not more of them than anyone would read."""
    more = [f"and {len(texts) - MOST_LINES} more"] if len(texts) > MOST_LINES else []
    return texts[:MOST_LINES] + more


def check_deadlock(job: Run, totals: dict[str, Any]) -> None:
    """Raise SimError if a PFC deadlock kept the run from its end; its results are in place."""
    assembly, n_left = job.assembly, job.assembly.n_flow - totals["n_flow_done"]
    is_end = job.scenario.stop_ps is None and (n_left or totals["blocked"])
    if not (assembly.is_deadlocked or (assembly.circles and is_end)):
        return
    lines = [deadlock_text(deadlock) for deadlock in deadlocks(job, totals)]
    lines.append(f"{n_left} flows are unfinished; the results up to here are in {job.folder.directory}")
    lines.append("A larger [network.buffer], a slower start or routes without a circle may avoid it")
    why = "some queues wait for each other for ever" if assembly.is_deadlocked else "nothing is left to happen"
    raise SimError(f"the run cannot go on: {why}\n  " + "\n  ".join(lines))
