"""Plain twins of flow mode: max-min fair rates by progressive filling, and messages that go at them, event by event.

With Fractions everything is exact. The solver fills ports in order of what they have for each, only as far as a change
reaches; here all flows begin at zero at every event, and rise together until ports are full.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from pdes.units import BITS_PER_BYTE, PS_PER_S

Number = Fraction | float
ROUNDING = 1e-12  # of a port's rate: where numbers are floats, so little is nothing


def fair_rates(
    ways: Mapping[int, Mapping[int, Number]], rate: Mapping[int, Number], weight: Mapping[int, Number] | None = None
) -> dict[int, Number]:
    """Of each flow. ways: its ports, and which part of it goes over each; a flow without any has no rate. rate: of each
    port. weight: by flow, None: all have 1.

    Bertsekas, Gallager: Data Networks, section 6.5.2. Rates rise as fast as weights say until a port is full; who uses
    it stays as it is, and the others rise on.
    """
    w = dict.fromkeys(ways, 1) if weight is None else {flow: weight[flow] for flow in ways}
    rates: dict[int, Number] = dict.fromkeys(ways, Fraction(0))
    left = {port: rate[port] for way in ways.values() for port in way}
    rising = {flow for flow, way in ways.items() if way}
    while rising:
        climb: dict[int, Number] = {}
        for flow in rising:
            for port, part in ways[flow].items():
                climb[port] = climb.get(port, 0) + w[flow] * part
        step = min(left[port] / speed for port, speed in climb.items())
        for flow in rising:
            rates[flow] += step * w[flow]
        full = set()
        for port, speed in climb.items():
            left[port] -= step * speed
            if left[port] <= rate[port] * (0 if isinstance(left[port], Fraction) else ROUNDING):
                full.add(port)
        rising = {flow for flow in rising if full.isdisjoint(ways[flow])}
    return rates


class Message(NamedTuple):
    """way: its ports."""

    start_ps: int
    size_bytes: int
    way: tuple[int, ...]


def took_ps(messages: Sequence[Message], rate_bps: Sequence[int], delay_ps: Sequence[int]) -> list[float]:
    """From each message's start until it is delivered: the delays of its ports, then its bytes at its fair rate."""
    byte_per_ps = {port: bps / (BITS_PER_BYTE * PS_PER_S) for port, bps in enumerate(rate_bps)}
    begin_ps = [message.start_ps + sum(delay_ps[port] for port in message.way) for message in messages]
    waiting = sorted(range(len(messages)), key=lambda i: (begin_ps[i], i), reverse=True)
    left: dict[int, float] = {}
    took, now_ps = [0.0] * len(messages), 0.0
    while waiting or left:
        rates = fair_rates({i: dict.fromkeys(messages[i].way, 1) for i in left}, byte_per_ps)
        ends_ps = {i: now_ps + left[i] / float(rates[i]) for i in left}
        next_ps = min([*ends_ps.values(), *(begin_ps[i] for i in waiting[-1:])])
        for i in [*left]:
            left[i] -= float(rates[i]) * (next_ps - now_ps)
            if ends_ps[i] <= next_ps:
                del left[i]
                took[i] = next_ps - messages[i].start_ps
        while waiting and begin_ps[waiting[-1]] <= next_ps:
            i = waiting.pop()
            left[i] = messages[i].size_bytes
        now_ps = next_ps
    return took
