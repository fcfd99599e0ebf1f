"""Lists of flows as `pdes-sim convert flows` takes them, and the times that they take by the plain twin."""

import random
from pathlib import Path

from reference.max_min_twin import Message, took_ps

HEADER = "start_s,src,dst,bytes,agg,core"
Flow = tuple[str, int, int, int, int, int]
"""(start in seconds, src, dst, bytes, agg, core)."""
GBPS, US = 10**9, 10**6


def poisson_case(k: int, n_flow: int, load: float, mean_bytes: int, seed: int) -> list[Flow]:
    """Between random hosts of a fat-tree at 100 Gbps, at random times and of random sizes, each with a way."""
    rng, n_host, half, now_s = random.Random(seed), k**3 // 4, k // 2, 0.0
    flows = []
    for _ in range(n_flow):
        now_s += rng.expovariate(load * n_host * 12.5e9 / mean_bytes)
        src, dst = rng.sample(range(n_host), 2)
        size_bytes = max(1, round(rng.expovariate(1 / mean_bytes)))
        flows.append((f"{now_s:.9f}", src, dst, size_bytes, rng.randrange(half), rng.randrange(half)))
    return flows


def write_case(path: Path, flows: list[Flow]) -> Path:
    path.write_text("\n".join([HEADER, *(",".join(map(str, flow)) for flow in flows)]) + "\n")
    return path


def way_of(flow: Flow, k: int) -> list[tuple[str, ...]]:
    """The names of the nodes that a flow passes, as pod, place in it, and kind."""
    _, src, dst, _, agg, core = flow
    half = k // 2
    (pod, edge), (far_pod, far_edge) = ((host // half // half, host // half % half) for host in (src, dst))
    up = [("host", str(src)), ("edge", str(pod), str(edge))]
    down = [("edge", str(far_pod), str(far_edge)), ("host", str(dst))]
    if (pod, edge) == (far_pod, far_edge):
        return [*up, down[1]]
    up.append(("agg", str(pod), str(agg)))
    if pod != far_pod:
        up += [("core", str(agg), str(core)), ("agg", str(far_pod), str(agg))]
    return up + down


def expected_ps(flows: list[Flow], k: int) -> list[float]:
    """What each flow takes. Who is not the first between its two hosts goes the first one's way."""
    first: dict[tuple[int, int], list[tuple[str, ...]]] = {}
    number: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
    messages = []
    for flow in flows:
        nodes = first.setdefault(flow[1:3], way_of(flow, k))
        way = tuple(number.setdefault(link, len(number)) for link in zip(nodes, nodes[1:], strict=False))
        whole, _, part = flow[0].partition(".")
        messages.append(Message(int(whole + part.ljust(12, "0")), flow[3], way))
    return took_ps(messages, [100 * GBPS] * len(number), [US] * len(number))
