"""Closed form of a training iteration, for fitting only: segments, alpha-beta exchanges, and a pipeline's formula.

A pipeline of p stages and v chunks per stage takes m t + (p - 1) t' / v, with t of the slowest stage and t' the mean of
the others; without chunks every microbatch also waits twice for a message between stages, as 1F1B leaves nothing to
hide it behind. Gradients follow at the end, or run beside the last microbatch's backward pass.
"""

from bisect import bisect_left
from dataclasses import replace
from functools import lru_cache
from math import exp, log

from fit_rows import Case

from models.compute.devices import Device
from models.compute.layout import Layout
from models.compute.lower import Segment, optimizer_ps, segments
from models.compute.memory import fullest_stage, stage_parameters
from models.compute.model_shape import ModelShape
from models.compute.stages import stage_layers

SERVER = 8
MIB = 2**20
# NCCL all-reduce of 8 GPUs: microseconds at 1, 2, 4, ... MiB (nccl_collectives.csv), then the last bus bandwidth, GB/s
ALL_REDUCE_US = {
    "a100": ([80, 90, 101, 133.5, 230, 424, 684.6, 1327.6, 2420.6, 4218.4, 8203.9], 234.0),
    "h100": ([27.4, 42.2, 54.2, 83, 123.8, 199.3, 324.7, 586.4, 1112.5, 2151, 4029.4], 480.0),
    "b200": ([50.9, 58.2, 80, 100, 115.2, 180.1, 293.2, 413.2, 727.1, 1363.6, 2597.7], 840.0),
}
ONE_WAY_GBPS = {"a100": 230.0, "h100": 362.0, "b200": 680.0}  # a ring, without the switch's help
NIC_FRAC, NIC_LATENCY_S = 0.92, 15e-6


def family(device: Device) -> str:
    """Whose NVLink curve a GPU has."""
    return {"a": "a100", "h": "h100", "b": "b200"}[device.name[0]]


@lru_cache(maxsize=None)
def in_server_s(collective: str, n_gpu: int, size_bytes: int, name: str) -> float:
    """Time of a collective inside a server, read off the measured all-reduce of eight by the bytes that a link carries."""
    if n_gpu == 1 or size_bytes == 0:
        return 0.0
    passes = {"all-reduce": 2, "ring": n_gpu / (n_gpu - 1)}.get(collective, 1)
    moved = passes * (n_gpu - 1) / n_gpu * size_bytes
    times, last_gbps = ALL_REDUCE_US[name]
    mib = max(moved / 1.75 / MIB, 1e-3)
    if mib >= 2 ** (len(times) - 1):
        alike_s = moved / (last_gbps * 1e9)
    else:
        x = max(log(mib, 2), 0.0)
        i = min(int(x), len(times) - 2)
        alike_s = exp(log(times[i]) + (x - i) * (log(times[i + 1]) - log(times[i]))) * 1e-6
    if collective == "all-reduce" and n_gpu == SERVER:
        return alike_s
    return max(alike_s, moved / (ONE_WAY_GBPS[name] * 1e9) + 10e-6)


def between_servers_s(collective: str, n_gpu: int, in_server: int, size_bytes: int, nic_bps: int, name: str) -> float:
    """Time of a collective of n_gpu GPUs, in_server of them in each server, each with a NIC that all of them use."""
    if n_gpu == 1 or size_bytes == 0:
        return 0.0
    if n_gpu <= in_server:
        return in_server_s(collective, n_gpu, size_bytes, name)
    passes = 2 if collective == "all-reduce" else 1
    bus = min(in_server * nic_bps / 8 * NIC_FRAC, ONE_WAY_GBPS[name] * 1e9)
    return passes * (n_gpu - 1) / n_gpu * size_bytes / bus + passes * NIC_LATENCY_S * (n_gpu / in_server) ** 0.5


def pass_s(run: tuple[Segment, ...], case: Case, layout: Layout, name: str) -> float:
    """Time of a pass: its segments in order, overlapped exchanges as far as they are longer than what follows."""
    total = hidden = 0.0
    for segment in run:
        if segment.kind == "compute":
            total += max(segment.time_ps * 1e-12, hidden)
            hidden = 0.0
            continue
        n_gpu = {"tp": layout.tp, "ep": layout.ep, "cp": layout.cp}[segment.group]
        stride = {"tp": 1, "ep": 1, "cp": layout.tp}[segment.group]
        in_server = max(1, min(n_gpu, SERVER // stride))
        steps = n_gpu - 1 if segment.kind == "ring" else 1
        if in_server >= n_gpu:
            taken = steps * in_server_s(segment.kind, n_gpu, segment.size_bytes, name)
        elif segment.kind == "ring":
            taken = steps * segment.size_bytes / (case.nic_bps / 8 * NIC_FRAC)
        else:
            taken = between_servers_s(segment.kind, n_gpu, in_server, segment.size_bytes, case.nic_bps, name)
        if segment.overlapped:
            hidden += taken
        else:
            total += taken
    return total + hidden


def iteration_s(case: Case, layout: Layout, device: Device) -> float:
    """Time of one iteration."""
    shape, name = case.shape, family(device)
    single = replace(layout, dp=1, pp=1, vpp=1, n_microbatch=1, zero=0)  # what the segments do not depend on

    @lru_cache(maxsize=None)
    def part_s(part: str, which: str) -> float:
        run_s = pass_s(segments(shape, single, device, part, which), case, layout, name)
        if layout.zero == 3 and part in ("dense", "moe"):
            gathered = _gather_s(case, layout, part, which, name)
            return max(run_s, gathered)
        return run_s

    stages = [_stage_s(shape, layout, stage, part_s) for stage in range(layout.pp)]
    slowest, m, p, v = max(stages), layout.n_microbatch, layout.pp, layout.vpp
    message_s = _message_s(case, layout, name)
    fill = (sum(stages) - slowest) / v + 2 * (p - 1) * message_s
    steady = m * slowest + (2 * (m - 1) * message_s if p > 1 and v == 1 else 0.0)
    return fill + steady + _end_s(case, layout, device, stages, name)


def _stage_s(shape: ModelShape, layout: Layout, stage: int, part_s) -> float:
    parts = [shape.layer_kind(i) for chunk in stage_layers(shape, layout, stage) for i in chunk]
    parts += ["embedding"] * (stage == 0) + ["head"] * (stage == layout.pp - 1)
    return sum(part_s(part, "forward") + part_s(part, "backward") for part in parts)


def _message_s(case: Case, layout: Layout, name: str) -> float:
    """Hidden states from stage to stage, each GPU its share of them."""
    if layout.pp == 1:
        return 0.0
    tokens = layout.microbatch * case.shape.sequence // layout.cp
    size_bytes = tokens * case.shape.hidden * layout.activation_bytes / layout.tp
    inside = layout.n_gpu <= SERVER
    rate = 200e9 if inside else case.nic_bps / 8 * NIC_FRAC
    again_s = in_server_s("all-gather", layout.tp, int(size_bytes * layout.tp), name) if not layout.sequence_parallel else 0.0
    return size_bytes / rate + NIC_LATENCY_S + again_s


def _gather_s(case: Case, layout: Layout, part: str, which: str, name: str) -> float:
    """ZeRO-3: a layer's parameters fetched, backwards again, and its gradients scattered."""
    from models.compute.parameters import parameters_of

    held = parameters_of(case.shape, layout, part).dense_parameters
    in_server = max(1, SERVER // layout.tp)
    size = layout.weight_bytes * held
    gather = between_servers_s("all-gather", layout.n_sharer, in_server, size, case.nic_bps, name)
    if which == "forward":
        return gather
    scattered = layout.gradient_bytes * held
    return gather + between_servers_s("reduce-scatter", layout.n_sharer, in_server, scattered, case.nic_bps, name)


def _end_s(case: Case, layout: Layout, device: Device, stages: list[float], name: str) -> float:
    """Gradients and optimizer after the last backward pass."""
    shape = case.shape
    longest = 0.0
    for stage in {0, layout.pp - 1}:
        held = stage_parameters(shape, layout, stage)
        gradients = 0.0
        in_server = max(1, min(layout.n_sharer, SERVER // layout.tp))
        if layout.n_gpu <= SERVER:
            in_server = layout.n_sharer
        if layout.zero < 3:
            for n, sharers in ((held.dense_parameters, layout.n_sharer), (held.expert_parameters, layout.n_expert_sharer)):
                inside = min(in_server, sharers)
                if layout.zero == 0:
                    gradients += between_servers_s("all-reduce", sharers, inside, n * layout.gradient_bytes, case.nic_bps, name)
                else:
                    gradients += between_servers_s("reduce-scatter", sharers, inside, n * layout.gradient_bytes, case.nic_bps, name)
                    gradients += between_servers_s("all-gather", sharers, inside, n * layout.weight_bytes, case.nic_bps, name)
        if case.overlaps_dp:
            gradients = max(gradients - stages[stage], gradients / 20)
        own = held.dense_parameters // (layout.n_sharer if layout.zero else 1)
        own += held.expert_parameters // (layout.n_expert_sharer if layout.zero else 1)
        longest = max(longest, gradients + optimizer_ps(shape, layout, device, own) * 1e-12)
    return longest


def choices(case: Case, device: Device) -> list[Layout]:
    """Layouts that the source allows, with the numbers of microbatches, that fit the memory; one if it states all."""
    per_replica = case.batch // case.layout.dp
    found = []
    for microbatch in [b for b in (1, 2, 3, 4, 6, 8, 12, 16) if per_replica % b == 0] if case.open_microbatch else [case.layout.microbatch]:
        m = max(per_replica // microbatch, 1)
        for vpp in _chunk_counts(case, m) if case.open_vpp else [case.layout.vpp]:
            for recompute in ("selective", "full") if case.open_recompute else (case.layout.recompute,):
                found.append(replace(case.layout, microbatch=microbatch, n_microbatch=m, vpp=vpp, recompute=recompute))
    if len(found) == 1:
        return found
    fitting = [layout for layout in found if fullest_stage(case.shape, layout)[1].total_bytes <= device.hbm_bytes]
    return fitting or found[:1]


def _chunk_counts(case: Case, n_microbatch: int) -> list[int]:
    """Chunks per stage that interleaving allows: the layers must come out even, and the microbatches, too."""
    per_stage = case.shape.layers // case.layout.pp
    if n_microbatch % case.layout.pp or case.shape.layers % case.layout.pp:
        return [1]
    return [v for v in range(1, per_stage + 1) if per_stage % v == 0]


def predict_s(case: Case, device: Device) -> tuple[float, Layout]:
    """Time of the fastest allowed layout, and that layout."""
    return min(((iteration_s(case, layout, device), layout) for layout in _choices(case, device.hbm_bytes)), key=lambda x: x[0])


_CHOICES: dict[tuple[str, int], list[Layout]] = {}


def _choices(case: Case, hbm_bytes: int) -> list[Layout]:
    key = (case.id, hbm_bytes)
    if key not in _CHOICES:
        from models.compute.devices import DEVICES

        _CHOICES[key] = choices(case, DEVICES[case.device])
    return _CHOICES[key]
