"""When a run goes from rank 0 to all ranks, and back: as measured while it lasts, by the wall clock.

All ranks take part in every decision of what to skip, so they gain only where packets are most of what takes time, and
lose where other processes take their cores away at every meeting. So rank 0 begins alone. Once packets have been most
of its time for so long that a trial costs little beside it, all ranks simulate. As soon as they take more time for each
packet-hop than rank 0 alone took, it goes on alone, for twice as long until the next trial. No result depends on it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pdes.engine.round import COMPUTE_NS, N_ROUND
from pdes.simulation.crew import PREPARES, collect, hops_of, spread
from pdes.simulation.job import Run
from pdes.units import NS_PER_S

EFFICIENCY_FRAC = 0.75
"""Of ranks that share packets out, beside one that has all: as measured with GPT-175B on two."""
DECIDING_FACTOR = 1.2
"""How much longer decisions take that all ranks take alike at the same time."""
WORTH_FRAC = 0.9
"""What all ranks may take of rank 0's time, as expected, for a trial."""
COST_S, COST_NODE_S = 0.5, 50e-6
"""Of going to all ranks before that has been done once, with kernels that are loaded: networks are built."""
TRIAL_S = 1.0
"""Of all ranks, until they are looked at for the first time; then twice as long each time, up to LOOK_S."""
PATIENCE = 10
"""A trial comes when rank 0 has been alone for so many times what one may lose: itself, and the way there and back."""
LOOK_S = 20.0


@dataclass
class Phase:
    """Of a run with the same ranks: when it began, and what had been counted by then."""

    begin_s: float
    compute_ns: int
    hops: int


class Spreading:
    """One rank's part. The clock that counts is rank 0's."""

    def __init__(self, job: Run, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: seconds of wall time, for tests."""
        self._job, self._clock, self._patience, self._look_s = job, clock, PATIENCE, TRIAL_S
        self._cost_s = COST_S + COST_NODE_S * job.scenario.topology.n_node
        self._alone_s_per_hop, self._changes, self._is_prepared = 0.0, list[dict[str, Any]](), False
        self.begin()

    def begin(self) -> None:
        """A phase begins here."""
        job = self._job
        compute_ns, hops = (0, 0) if job.is_asleep else (int(job.loop[COMPUTE_NS]), hops_of(job))
        self._phase = Phase(self._clock(), compute_ns, hops)

    def tick(self) -> bool:
        """On rank 0, whether it wants a change, or a look whether there should be one.

        Halfway to the first trial it has those that sleep load what they need for it.
        """
        job = self._job
        if job.everyone.rank > 0 or not job.scenario.parameters.has_packets:  # else all ranks do the same
            return False
        if not self._is_prepared and self._pays_after(self._patience / 2):
            self._is_prepared = True
            job.everyone.tell(PREPARES, list(range(1, job.everyone.size)))
        return self.is_due

    @property
    def is_due(self) -> bool:
        """The same, by the clock and the counts alone."""
        if self._job.world.size > 1:
            return self._clock() - self._phase.begin_s >= self._look_s
        return self._pays_after(self._patience)

    def _pays_after(self, patience: float) -> bool:
        """Whether all ranks are expected to be faster, and rank 0 was alone for so many times what a trial may lose."""
        lasts_s = self._clock() - self._phase.begin_s
        return lasts_s >= patience * (2 * self._cost_s + TRIAL_S) and self._expected_frac(lasts_s) < WORTH_FRAC

    def _expected_frac(self, lasts_s: float) -> float:
        """Of its time that a phase of rank 0 alone would take on all ranks."""
        packets = (int(self._job.loop[COMPUTE_NS]) - self._phase.compute_ns) / NS_PER_S / max(lasts_s, 1e-9)
        n_rank = min(self._job.everyone.size, self._job.scenario.n_lp)
        return packets / (n_rank * EFFICIENCY_FRAC) + (1 - packets) * DECIDING_FACTOR

    def rest(self) -> bool:
        """Decide, at a round's end that all ranks with LPs have, and go over; whether they are others now."""
        job, phase, begin_s = self._job, self._phase, self._clock()
        lasts_s, hops = begin_s - phase.begin_s, hops_of(job) - phase.hops
        if job.world.size == 1:
            self._alone_s_per_hop = lasts_s / max(hops, 1)
            facts = self._facts("all ranks", lasts_s, hops) | {"expected_share": round(self._expected_frac(lasts_s), 3)}
            spread(job)
            self._cost_s, self._look_s = self._clock() - begin_s, TRIAL_S
        else:
            hops = sum(job.world.allgather(hops))
            is_slower: bool = job.world.bcast(lasts_s / max(hops, 1) > self._alone_s_per_hop)
            if not is_slower:
                self._look_s = min(2 * self._look_s, LOOK_S)
                self.begin()
                return False
            facts = self._facts("rank 0", lasts_s, hops)
            collect(job)
            self._patience *= 2
        self._changes.append(facts | {"seconds": self._clock() - begin_s})
        self.begin()
        return True

    def _facts(self, to: str, lasts_s: float, hops: int) -> dict[str, Any]:
        job = self._job
        return {
            "to": to, "round": int(job.loop[N_ROUND]), "simulated_ps": job.now_ps, "after_seconds": lasts_s,
            "ns_per_packet_hop": round(1e9 * lasts_s / max(hops, 1), 2),
        }  # fmt: skip

    def facts(self) -> dict[str, Any]:
        """What `run.json` says."""
        return {"begins": "rank 0", "changes": self._changes}
