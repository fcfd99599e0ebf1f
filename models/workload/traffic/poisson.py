"""Open-loop traffic: messages that arrive as a Poisson process, of sizes from a distribution, between random hosts.

As the traffic generator of HPCC's evaluation (Li et al. 2019, section 5.1): a message goes from a host to another one,
both uniform (a host that is twice as fast sends twice as often); the load is payload over the rate of the hosts' links.
On top there may be incasts: at Poisson times several hosts send to one at once. Every draw is a function of the seed,
of its purpose and of the message's number, so a longer run begins like a shorter one, and incasts change nothing else.
"""

from dataclasses import dataclass
from itertools import chain

import numpy as np

from models.workload.traffic.flows import MAX_START_PS, NO_PRIORITY, FlowList
from models.workload.traffic.size_distribution import SizeDistribution
from pdes.engine.jit import kernel
from pdes.engine.rng import uniform
from pdes.errors import ConfigError
from pdes.random_plain import (
    PURPOSE_ARRIVAL_GAP,
    PURPOSE_FLOW_DESTINATION,
    PURPOSE_FLOW_SIZE,
    PURPOSE_FLOW_SOURCE,
)
from pdes.units import BITS_PER_BYTE, PS_PER_S

MAX_FLOWS = 20_000_000  # a guard against a slip in the duration that would fill the memory
DPORT = 100
_BACKGROUND, _INCAST = 0, 1  # entities of the random numbers


@dataclass(frozen=True)
class Incast:
    """An overlay: fan_in hosts send size_bytes each to another one. load: their share of the hosts' links."""

    fan_in: int
    size_bytes: int
    load: float


@dataclass(frozen=True)
class Traffic:
    """What is drawn. Either duration_ps, in which messages start, or n_flow, the messages (without the incasts')."""

    sizes: SizeDistribution
    load: float
    seed: int
    duration_ps: int | None = None
    n_flow: int | None = None
    incast: Incast | None = None


@kernel
def _fill_uniform(seed, entity, purpose, first, out):
    """Draws number first, first + 1, ... of (seed, entity, purpose) into out, float64[n]; the rest int64."""
    for i in range(len(out)):
        out[i] = uniform(seed, entity, purpose, first + i)


def draw(seed: int, entity: int, purpose: int, n: int, first: int = 0) -> np.ndarray:
    """n uniform numbers in [0, 1), float64[n]."""
    out = np.empty(n)
    _fill_uniform(seed, entity, purpose, first, out)
    return out


def poisson_flows(traffic: Traffic, host_rate_bps: np.ndarray) -> FlowList:
    """The messages: first the background's in order of their start, then the incasts'. Hosts by number.

    host_rate_bps: int64[n_host], each host's NIC. Raises ConfigError.
    """
    if len(host_rate_bps) < 2 or not host_rate_bps.all():
        raise ConfigError("[workload]", f"{len(host_rate_bps)} host", "at least two hosts, which send to each other")
    columns = [_background(traffic, host_rate_bps)]
    names = [traffic.sizes.name]
    if not len(columns[0][0]):
        accepted = "Accepted: a longer one, or a higher load"
        raise ConfigError("[workload] duration", "no message arrives in it", accepted)
    if traffic.incast is not None:
        last_ps = traffic.duration_ps if traffic.duration_ps is not None else int(columns[0][3].max(initial=0)) + 1
        columns.append(_incasts(traffic.incast, traffic.seed, last_ps, host_rate_bps))
        names.append("incast")
    src, dst, size_bytes, start_ps = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    tag = tuple(chain.from_iterable((name,) * len(part[0]) for name, part in zip(names, columns, strict=True)))
    n_flow = len(src)
    return FlowList(
        src, dst, size_bytes, start_ps, np.full(n_flow, DPORT), tag, priority=np.full(n_flow, NO_PRIORITY, np.int64)
    )


def _background(traffic: Traffic, host_rate_bps: np.ndarray) -> tuple[np.ndarray, ...]:
    gap_ps = _mean_gap_ps(traffic.load, traffic.sizes.mean_bytes, host_rate_bps)
    start_ps = _arrivals(traffic.seed, _BACKGROUND, gap_ps, traffic.duration_ps, traffic.n_flow)
    n_flow, n_host = len(start_ps), len(host_rate_bps)
    until_bps = np.cumsum(host_rate_bps)
    at_bps = draw(traffic.seed, _BACKGROUND, PURPOSE_FLOW_SOURCE, n_flow) * float(until_bps[-1])
    src = np.minimum(np.searchsorted(until_bps, at_bps, side="right"), n_host - 1).astype(np.int64)
    dst = _floor(draw(traffic.seed, _BACKGROUND, PURPOSE_FLOW_DESTINATION, n_flow), n_host - 1)
    size_bytes = traffic.sizes.sizes(draw(traffic.seed, _BACKGROUND, PURPOSE_FLOW_SIZE, n_flow))
    return src, dst + (dst >= src), size_bytes, start_ps


def _incasts(incast: Incast, seed: int, duration_ps: int, host_rate_bps: np.ndarray) -> tuple[np.ndarray, ...]:
    n_host = len(host_rate_bps)
    if not 1 <= incast.fan_in < n_host:
        accepted = f"1 to {n_host - 1}, the hosts besides the receiver"
        raise ConfigError("[workload.incast] fan_in", f"{incast.fan_in} senders", accepted)
    gap_ps = _mean_gap_ps(incast.load, incast.fan_in * incast.size_bytes, host_rate_bps)
    start_ps = _arrivals(seed, _INCAST, gap_ps, duration_ps, None)
    dst = _floor(draw(seed, _INCAST, PURPOSE_FLOW_DESTINATION, len(start_ps)), n_host)
    src = np.empty((len(start_ps), incast.fan_in), np.int64)
    for i in range(len(start_ps)):
        place = draw(seed, _INCAST, PURPOSE_FLOW_SOURCE, incast.fan_in, i * incast.fan_in)
        others = np.delete(np.arange(n_host), dst[i])
        for k in range(incast.fan_in):  # Fisher and Yates: a sample without repetition
            other = k + int(place[k] * (n_host - 1 - k))
            others[k], others[other] = others[other], others[k]
        src[i] = others[: incast.fan_in]
    repeat = np.repeat(np.arange(len(start_ps)), incast.fan_in)
    return src.reshape(-1), dst[repeat], np.full(len(repeat), incast.size_bytes), start_ps[repeat]


def _floor(uniform_frac: np.ndarray, n: int) -> np.ndarray:
    """Whole numbers 0 .. n - 1, int64."""
    return np.minimum((uniform_frac * n).astype(np.int64), n - 1)


def _mean_gap_ps(load: float, mean_bytes: float, host_rate_bps: np.ndarray) -> float:
    return mean_bytes * BITS_PER_BYTE * PS_PER_S / (load * float(host_rate_bps.sum()))


def _arrivals(seed: int, entity: int, mean_gap_ps: float, duration_ps: int | None, n_flow: int | None) -> np.ndarray:
    """Times of a Poisson process, int64: the first n_flow, or those before duration_ps. Gaps are whole ps."""
    expected = n_flow if n_flow is not None else (duration_ps or 0) / mean_gap_ps
    if expected > MAX_FLOWS:
        key = "flows" if n_flow is not None else "duration"
        accepted = f"Accepted: at most {MAX_FLOWS:,}"
        raise ConfigError(f"[workload] {key}", f"makes about {int(expected):,} messages or incasts", accepted)
    if expected * mean_gap_ps > MAX_START_PS // 2:
        found = f"messages arrive {mean_gap_ps / PS_PER_S:g} s apart on average: the last starts too late"
        raise ConfigError("[workload] flows", found, "Accepted: fewer messages, or a higher load")
    n_draw = n_flow if n_flow is not None else int(expected + 10 * expected**0.5) + 20
    while True:
        gap_ps = np.rint(-np.log1p(-draw(seed, entity, PURPOSE_ARRIVAL_GAP, n_draw)) * mean_gap_ps)
        start_ps = np.cumsum(gap_ps.astype(np.int64))
        if duration_ps is None:
            return start_ps
        if start_ps[-1] >= duration_ps:
            return start_ps[start_ps < duration_ps]
        n_draw *= 2  # not once in 10**20 runs
