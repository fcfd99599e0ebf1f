"""Closed form of a training iteration, for fitting only: segments, exchanges by measured curves, a pipeline's formula.

A pipeline of p stages and v chunks per stage takes m t + (p - 1) t' / v, with t of the slowest stage and t' the mean of
the others; without chunks every microbatch but the first also waits for 2 (p - 1) / p messages between stages, as 1F1B
leaves nothing to hide them behind. Gradients follow at the end, or run beside the last microbatch's backward pass.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import exp, log, sqrt

from fit_rows import Case
from models.compute.devices import DEVICES, Device
from models.compute.layout import Layout
from models.compute.lower import Segment, optimizer_ps, segments
from models.compute.memory import fits, stage_parameters
from models.compute.parameters import parameters_of
from models.compute.stages import stage_layers

SERVER, MIB, GB = 8, 2**20, 10**9
# NCCL's all-reduce of eight GPUs: microseconds at 1, 2, 4, ... MiB, then the bandwidth on a link, GB/s
ALL_REDUCE_US = {
    "a100": ([101.9, 101.4, 101.5, 133.5, 276.6, 424, 684.6, 1327.6, 2420.6, 4218.4, 8203.9], 234),
    "h100": ([27.4, 42.2, 54.2, 83, 123.8, 199.3, 324.7, 586.4, 1112.5, 2151, 4029.4], 480),
    "b200": ([50.9, 58.2, 96, 116.1, 115.2, 180.1, 293.2, 413.2, 727.1, 1363.6, 2597.7], 840),
}
RING_BYTES_PER_S = {"a100": 230 * GB, "h100": 362 * GB, "b200": 680 * GB}  # without the switch's help
RING_LATENCY_S, NIC_LATENCY_S, NIC_FRAC = 10e-6, 15e-6, 0.92
NVLINK_MESSAGE_BYTES_PER_S = 190 * GB
N_BUCKET = 20  # what of gradients no backward pass can hide
MICROBATCHES = (1, 2, 3, 4, 6, 8, 12, 16)


def family(device: Device) -> str:
    """Whose NVLink curve a GPU has."""
    return {"a": "a100", "h": "h100", "b": "b200"}[device.name.removeprefix("g")[0]]


@cache
def in_server_s(collective: str, n_gpu: int, size_bytes: int, name: str) -> float:
    """A collective inside a server, read off the measured all-reduce of eight by the bytes that a link carries."""
    if n_gpu == 1 or size_bytes == 0:
        return 0.0
    passes = {"all-reduce": 2, "ring": n_gpu / (n_gpu - 1)}.get(collective, 1)
    moved_bytes = passes * (n_gpu - 1) / n_gpu * size_bytes
    times_us, last_gbps = ALL_REDUCE_US[name]
    doublings = max(log(max(moved_bytes / 1.75 / MIB, 1), 2), 0.0)
    i = int(doublings)
    if i >= len(times_us) - 1:
        alike_s = moved_bytes / (last_gbps * GB)
    else:
        alike_s = times_us[i] * exp((doublings - i) * log(times_us[i + 1] / times_us[i])) * 1e-6
    if collective == "all-reduce" and n_gpu == SERVER:
        return alike_s
    return max(alike_s, moved_bytes / RING_BYTES_PER_S[name] + RING_LATENCY_S)


def collective_s(collective: str, n_gpu: int, in_server: int, size_bytes: int, case: Case, name: str) -> float:
    """A collective of n_gpu GPUs, in_server of them in each server, each with a NIC that all of them use."""
    if n_gpu <= in_server:
        return in_server_s(collective, n_gpu, size_bytes, name)
    nic_bytes_per_s = case.nic_bps / 8 * NIC_FRAC
    if collective == "all-to-all":  # every GPU sends to every other: what leaves the server takes its own NIC
        outside_s = (n_gpu - in_server) / n_gpu * size_bytes / nic_bytes_per_s
        return max(outside_s, in_server_s(collective, in_server, in_server * size_bytes // n_gpu, name)) + NIC_LATENCY_S
    passes = 2 if collective == "all-reduce" else 1
    rate = min(in_server * nic_bytes_per_s, RING_BYTES_PER_S[name])
    return passes * ((n_gpu - 1) / n_gpu * size_bytes / rate + NIC_LATENCY_S * sqrt(n_gpu / in_server))


def beside_s(one_s: float, other_s: float, loss_frac: float) -> float:
    """Two things at once (HeteroSim's equation 2)."""
    return max(one_s, other_s) + loss_frac * min(one_s, other_s)


def pass_s(run: tuple[Segment, ...], case: Case, layout: Layout, device: Device) -> float:
    """A pass: its segments in order, overlapped exchanges beside the next compute segment."""
    total_s = beside = 0.0
    for segment in run:
        if segment.kind == "compute":
            total_s += beside_s(segment.time_ps * 1e-12, beside, device.fit.overlap_loss_frac)
            beside = 0.0
        elif segment.overlapped:
            beside += _segment_s(segment, case, layout, family(device))
        else:
            total_s += _segment_s(segment, case, layout, family(device))
    return total_s + beside


def _segment_s(segment: Segment, case: Case, layout: Layout, name: str) -> float:
    n_gpu = layout.group_size(segment.group)
    stride = {"cp": layout.tp, "ep": layout.etp}.get(segment.group, 1)
    in_server = max(1, case.per_server // stride)
    if segment.kind != "ring":
        return collective_s(segment.kind, n_gpu, in_server, segment.size_bytes, case, name)
    if n_gpu <= in_server:
        return (n_gpu - 1) * in_server_s("ring", n_gpu, segment.size_bytes, name)
    return (n_gpu - 1) * segment.size_bytes / (case.nic_bps / 8 * NIC_FRAC)


def iteration_s(case: Case, layout: Layout, device: Device) -> float:
    """One iteration."""
    alone = replace(layout, dp=1, pp=1, vpp=1, n_microbatch=1, zero=0)  # segments depend on nothing of these

    @cache
    def part_s(part: str) -> float:
        return sum(_pass_with_parameters_s(part, which, alone) for which in ("forward", "backward"))

    def _pass_with_parameters_s(part: str, which: str, alone: Layout) -> float:
        run_s = pass_s(segments(case.shape, alone, device, part, which), case, layout, device)
        if layout.zero < 3 or part in ("embedding", "head"):
            return run_s
        return beside_s(run_s, _gathered_s(case, layout, part, which, device), device.fit.overlap_loss_frac)

    stages_s = [_stage_s(case, layout, stage, part_s) for stage in range(layout.pp)]
    slowest_s, m, p, v = max(stages_s), layout.n_microbatch, layout.pp, layout.vpp
    message_s = _message_s(case, layout, family(device)) if p > 1 else 0.0
    pipeline_s = one_f_one_b_s(p, m, v, slowest_s, sum(stages_s), message_s)
    return pipeline_s + _end_s(case, layout, device, stages_s)


def one_f_one_b_s(p: int, m: int, v: int, slowest_s: float, all_s: float, message_s: float) -> float:
    """1F1B of m microbatches on p stages of v chunks; forward and backward of the slowest stage, and of all."""
    n_wait = 2 * (p - 1) + (2 * (m - 1) * (p - 1) / p if v == 1 else 0)
    return m * slowest_s + (all_s - slowest_s) / v + n_wait * message_s


def _stage_s(case: Case, layout: Layout, stage: int, part_s: Callable[[str], float]) -> float:
    parts: list[str] = [case.shape.layer_kind(i) for chunk in stage_layers(case.shape, layout, stage) for i in chunk]
    parts += ["embedding"] * (stage == 0) + ["head"] * (stage == layout.pp - 1)
    return sum(part_s(part) for part in parts)


def _message_s(case: Case, layout: Layout, name: str) -> float:
    """Hidden states from stage to stage: each GPU sends its share, and the receivers put them together."""
    n_token = layout.microbatch * case.shape.sequence // layout.cp
    whole_bytes = n_token * case.shape.hidden * layout.activation_bytes
    rate = NVLINK_MESSAGE_BYTES_PER_S if layout.n_gpu <= case.per_server else case.nic_bps / 8 * NIC_FRAC
    gather_s = 0.0 if layout.sequence_parallel else in_server_s("all-gather", layout.tp, whole_bytes, name)
    return whole_bytes / layout.tp / rate + NIC_LATENCY_S + gather_s


def _gathered_s(case: Case, layout: Layout, part: str, which: str, device: Device) -> float:
    """ZeRO-3: a layer's parameters are fetched, backwards again, and its gradients scattered."""
    held, name = parameters_of(case.shape, layout, part), family(device)
    in_server = max(1, case.per_server // layout.tp)

    def sharers_s(collective: str, value_bytes: int) -> float:
        size_bytes = held.dense_parameters * value_bytes
        return collective_s(collective, layout.n_shard, in_server, size_bytes, case, name)

    gather_s = sharers_s("all-gather", layout.weight_bytes)
    if which == "forward":
        return gather_s
    n_copy, copied_bytes = layout.n_sharer // layout.n_shard, held.dense_parameters * layout.reduce_bytes
    copies_s = collective_s("all-reduce", n_copy, 1, copied_bytes // layout.n_shard, case, name) if n_copy > 1 else 0.0
    return gather_s + sharers_s("reduce-scatter", layout.reduce_bytes) + copies_s


def _end_s(case: Case, layout: Layout, device: Device, stages_s: list[float]) -> float:
    """Gradients and optimizer after the last backward pass, on the stage where they take longest."""
    longest_s = 0.0
    for stage in {0, layout.pp - 1}:
        held = stage_parameters(case.shape, layout, stage)
        kinds = (held.dense_parameters, layout.n_sharer), (held.expert_parameters, layout.n_expert_sharer)
        gradients_s = sum(_gradients_s(n, sharers, case, layout, device) for n, sharers in kinds)
        if case.overlaps_dp:
            both_s = beside_s(stages_s[stage], gradients_s, device.fit.overlap_loss_frac)
            gradients_s = max(both_s - stages_s[stage], gradients_s / N_BUCKET)
        own = sum(n // (sharers if layout.zero else 1) for n, sharers in kinds)
        longest_s = max(longest_s, gradients_s + optimizer_ps(case.shape, layout, device, own) * 1e-12)
    return longest_s


def _gradients_s(n_parameter: int, sharers: int, case: Case, layout: Layout, device: Device) -> float:
    if layout.zero == 3 or sharers == 1 or n_parameter == 0:
        return 0.0
    in_server = sharers if layout.n_gpu <= case.per_server else max(1, case.per_server // layout.tp)
    gradients, weights = n_parameter * layout.reduce_bytes, n_parameter * layout.weight_bytes
    sizes = {"all-reduce": gradients} if layout.zero == 0 else {"reduce-scatter": gradients, "all-gather": weights}
    return sum(collective_s(kind, sharers, in_server, size, case, family(device)) for kind, size in sizes.items())


@cache
def choices(case: Case) -> tuple[Layout, ...]:
    """Layouts that the source allows and that fit the memory, with their numbers of microbatches."""
    per_replica, given = case.batch // case.layout.dp, case.layout
    sizes = [b for b in MICROBATCHES if per_replica % b == 0] if case.open_microbatch else [given.microbatch]
    found = [
        replace(given, microbatch=b, n_microbatch=max(per_replica // b, 1), vpp=vpp, recompute=recompute)
        for b in sizes
        for vpp in (_chunk_counts(case, per_replica // b) if case.open_vpp else [given.vpp])
        for recompute in (case.open_recompute or (given.recompute,))
    ]
    if len(found) == 1:
        return tuple(found)
    return tuple(layout for layout in found if fits(case.shape, layout, DEVICES[case.device].hbm_bytes)) or (found[0],)


def _chunk_counts(case: Case, n_microbatch: int) -> list[int]:
    """Chunks per stage that interleaving allows: the layers must come out even, and the microbatches, too."""
    per_stage, rest = divmod(case.shape.layers, case.layout.pp)
    if rest or n_microbatch % case.layout.pp:
        return [1]
    return [v for v in range(1, per_stage + 1) if per_stage % v == 0]


def predict_s(case: Case, device: Device) -> tuple[float, Layout]:
    """The fastest allowed layout's time, and that layout."""
    times_s = [(iteration_s(case, layout, device), i) for i, layout in enumerate(choices(case))]
    time_s, i = min(times_s)
    return time_s, choices(case)[i]
