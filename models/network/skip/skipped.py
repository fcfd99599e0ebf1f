"""What hosts and ports were spared, by what spared them it; a rank's own part."""

from dataclasses import dataclass, field

CAUSES: tuple[str, ...] = ("steady", "memo", "memo_file", "follower", "wave", "fluid", "pass")
"""Why something was skipped: it had settled; an entry of this run said what it comes to; one of an earlier run did; it
followed another network partition that was simulated at the same time; its flows were taken to end as those of an
earlier wave did (the forecast "similar"); its message went at flow level ("alone", "shares"); a
schedule's loop repeats (`microbatch_repeats`)."""


def _none() -> dict[str, int]:
    return dict.fromkeys(CAUSES, 0)


@dataclass
class Skipped:
    """What this rank's hosts and ports were spared."""

    hops_by_cause: dict[str, int] = field(default_factory=_none)  # packet-hops
    flow_ps_by_cause: dict[str, int] = field(default_factory=_none)  # time of all queue pairs together

    @property
    def packet_hops(self) -> int:
        """Of all causes."""
        return sum(self.hops_by_cause.values())
