"""[network.routing], [[network.path]] and [[network.link_event]]: which way packets go, and links that change."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pdes.config.tables.fields import Duration, Fault, Meaning, PositiveDuration, Rate, Table, quantity

RoutingPolicy = Literal["ecmp", "weighted", "spray", "flowlet", "adaptive"]
REORDERING = ("spray", "adaptive")
NodePair = Annotated[list[str], Field(min_length=2, max_length=2)]


class RoutingConfig(Table):
    """[network.routing]: how switches choose among next hops at equal distance.

    convergence_ps: from a link's change until all switches route by it.
    """

    policy: RoutingPolicy = "ecmp"
    flowlet_gap_ps: PositiveDuration = quantity("50us", "flowlet_gap")
    convergence_ps: Duration = quantity("1ms", "convergence")
    queue_pairs_per_flow: Annotated[int, Field(ge=1, le=256)] = 1
    MEANING: ClassVar[Meaning] = {
        "policy": "how switches choose among next hops at equal distance",
        "flowlet_gap_ps": "policy flowlet: a flow that pauses for longer may take another way",
        "convergence_ps": "from a link's change until all switches route by it",
        "queue_pairs_per_flow": "messages are split over so many queue pairs, each with its own path",
    }


class PathConfig(Table):
    """One [[network.path]]: a fixed path for the queue pairs between two hosts, above all rules.

    nodes: names of all nodes from the source to the destination. ACKs take it back.
    """

    nodes: Annotated[list[str], Field(min_length=2)]
    MEANING: ClassVar[Meaning] = {
        "nodes": "names of all nodes from the source to the destination; acknowledgements take it back",
    }


class LinkEventConfig(Table):
    """One [[network.link_event]]: from time_ps on, both directions of a link are like this.

    What is not given goes on as it was. which: among parallel links between the two nodes, from 0.
    """

    time_ps: Duration = Field(alias="time")
    link: NodePair
    which: Annotated[int, Field(ge=0)] = 0
    state: Literal["up", "down"] | None = None
    rate_bps: Rate | None = Field(default=None, alias="rate")
    loss: Annotated[float, Field(ge=0, le=1)] | None = None
    MEANING: ClassVar[Meaning] = {
        "time_ps": "from when on it holds",
        "link": "names of the two nodes that the link joins",
        "which": "among parallel links between the two, from 0",
        "state": "down: what is on the wire is lost, and what is sent; without it, as before",
        "rate_bps": "at most the link's own; without it, as before",
        "loss": "probability that a packet is lost; without it, as before",
    }


def routing_faults(
    routing: RoutingConfig, events: list[LinkEventConfig], is_ns3: bool, is_selective: bool
) -> Iterator[Fault]:
    """What does not go together."""
    for i_row, event in enumerate(events):
        if event.state is None and event.rate_bps is None and event.loss is None:
            accepted = "Accepted: at least one of state, rate and loss"
            yield Fault(("network", "link_event", i_row), "changes nothing", accepted)
    if is_ns3 and (events or routing != RoutingConfig()):
        key = "link_event" if events else "routing"
        accepted = 'Accepted: compatibility = "none", or this left out'
        yield Fault(("network", key), 'is not available with compatibility = "ns3-hpcc"', accepted)
    if routing.policy in REORDERING and not is_selective and not is_ns3:
        found = f'"{routing.policy}" brings packets out of order, and recovery is "go-back-n"'
        accepted = 'Accepted: with [network.transport] recovery = "selective-repeat"'
        yield Fault(("network", "routing", "policy"), found, accepted)
