"""Training jobs of a config: what [workload] says, as the models' own job."""

import logging
from dataclasses import replace
from typing import Any

import numpy as np

from models.compute.checks import check_memory
from models.compute.devices import LOSS_KINDS, Device
from models.compute.kernel_time import left_frac
from models.compute.layout import Layout
from models.compute.lower import SLOWED_1024
from models.compute.memory import state_bytes
from models.compute.model_shape import ModelShape
from models.compute.presets import PRESETS as SHAPES
from models.topology.graph import Topology
from models.workload.compiler.build import check_job, plan_job
from models.workload.compiler.choose import choose
from models.workload.compiler.job import Job
from models.workload.compiler.ranks import Ranks
from models.workload.compiler.tuning import KindTuning, Tuning
from models.workload.plan import WorkloadPlan
from models.workload.training.iteration import PRESETS, GptModel, TrainingJob, plan_training
from pdes.config import Config
from pdes.errors import ConfigError
from pdes.scenario.devices import training_devices
from pdes.scenario.placing import cluster_of, exchanges_on, placing_of, shared_out
from pdes.scenario.transports import own_transports

PPM = 1_000_000


def build_training(config: Config, topology: Topology) -> WorkloadPlan:
    """The plan of a [workload] of kind "training"."""
    w: Any = config.workload
    server, n_iteration = topology.server[topology.host], config.simulation.iterations
    if w.compute.gpu is None:
        return plan_training(training_job(w), topology.n_host, server, n_iteration)
    job, cluster = checked_job(config, topology), cluster_of(config, topology)
    placing = placing_of(config, job, cluster)
    job = shared_out(job, exchanges_on(cluster, job, placing.gpu_of_rank))
    check_job(job, topology.n_host)
    _check_memory(w, job, Ranks(job.layout, placing.gpu_of_rank))
    plan = plan_job(job, topology.n_host, server, n_iteration, placing.gpu_of_rank)
    fits = {device.fit for device in job.devices}
    most_frac = max(max(fit.overlap_loss_frac, *map(fit.loss_frac, LOSS_KINDS)) for fit in fits)
    slowed = round(SLOWED_1024 / left_frac(most_frac))
    facts = plan.facts | ({"placement": placing.said} if placing.said else {})
    return replace(plan, facts=facts, slowed_1024=slowed, jitter_ppm=round(w.compute.jitter_frac * PPM))


def checked_job(config: Config, topology: Topology) -> Job:
    """The job of a [workload] with a GPU type, which fits its model and the cluster."""
    payload, header = config.network.payload_bytes, config.network.header_bytes
    goodput_bps = int(topology.nic_rate_bps.min()) * payload // (payload + header)
    job = compiled_job(config, topology.server[topology.host], goodput_bps)
    check_job(job, topology.n_host)
    return job


def checkpoint_bytes(w: Any) -> int:
    """Of the model of a [workload] of kind training: weights, master weights and moments, each once."""
    if w.compute.gpu is None:
        return training_job(w).model.parameters() * (Layout().weight_bytes + state_bytes(Layout()))
    layout = Layout(precision=w.precision, **_dtypes(w))
    return model_shape(w).parameters() * (layout.weight_bytes + state_bytes(layout))


def _check_memory(w: Any, job: Job, ranks: Ranks) -> None:
    if w.memory.check == "off":
        return
    try:
        if job.layout.stage_tp:
            for replica in range(job.layout.dp):
                check_memory(job.shape, job.layout, job.memory_of_stages(ranks, replica), job.memory_schedule, replica)
        else:
            check_memory(job.shape, job.layout, job.memory_of_stages(ranks), job.memory_schedule)
    except ConfigError as error:
        if w.memory.check == "refuse":
            raise
        logging.getLogger(__name__).warning(error)


def model_shape(w: Any) -> ModelShape:
    """The model of a [workload] with a GPU type."""
    if w.preset is not None:
        sizes = {key: getattr(w, key) for key in ("layers", "sequence") if getattr(w, key) is not None}
        return replace(SHAPES[w.preset], **sizes)
    m = w.model
    return ModelShape(
        layers=m.layers, hidden=m.hidden, heads=m.heads, ffn=m.ffn or 0, kv_heads=m.kv_heads or 0,
        head_dim=m.head_dim or 0, vocabulary=m.vocabulary, sequence=m.sequence, gated=m.gated, norm=m.norm,
        tied_embeddings=m.tied_embeddings, learned_positions=m.learned_positions, biases=m.biases, dropout=m.dropout,
        n_expert=m.experts, top_k=m.top_k, expert_ffn=m.expert_ffn or 0, shared_experts=m.shared_experts,
        n_dense_layers=m.dense_layers, expert_every=m.expert_every,
    )  # fmt: skip


def compiled_job(config: Config, server_of_gpu: np.ndarray, nic_goodput_bps: int) -> Job:
    """The job of a [workload] with a GPU type; what is "auto" is chosen."""
    w: Any = config.workload
    p = w.parallel
    recompute = None if w.recompute == "auto" else w.recompute
    microbatch = w.microbatch if isinstance(w.microbatch, int) else None
    vpp = p.vpp if isinstance(p.vpp, int) else None
    layout = Layout(
        tp=p.tp, dp=p.dp, pp=p.pp, cp=p.cp, ep=p.ep, etp=p.etp, vpp=vpp or 1, microbatch=microbatch or 1,
        n_microbatch=w.n_microbatch, sequence_parallel=w.sequence_parallel, recompute=recompute or "none",
        precision=w.precision, **_dtypes(w), zero=w.zero, flash_attention=w.flash_attention,
        causal_half=w.causal == "half", tp_overlap=w.overlap_tensor,
        tp_gradient_overlap=w.overlap_tensor_gradients, cp_balanced=w.balanced_context, dual=w.schedule == "dualpipe",
        stage_layers=p.stage_layers if isinstance(p.stage_layers, tuple) else (),
        shard=p.shard or 0,
        stage_tp=() if p.sizes == ((p.tp,) * p.dp,) * p.pp else p.sizes,
        replica_microbatches=p.replica_microbatches if isinstance(p.replica_microbatches, tuple) else (),
    )  # fmt: skip
    devices, slowness = _devices(config, server_of_gpu)
    known = own_transports(w.transports)
    others = {
        gpu: known[group.transport]
        for group in w.gpus if group.transport
        for gpu in np.flatnonzero(np.isin(server_of_gpu, group.servers)).tolist()
    }  # fmt: skip
    job = Job(
        model_shape(w), layout, devices, w.schedule, w.overlap_gradients, w.overlap_parameters, slowness=slowness,
        iteration_overhead_ps=w.compute.iteration_overhead_ps, memory_bytes=w.memory.size_bytes or 0,
        pass_times_ps=w.compute.pass_times_ps, routing_skew=w.routing_skew,
        transport=known[w.transport], transport_of_gpu=others, cross_rail_rings=w.cross_rail_rings,
        nic_goodput_bps=nic_goodput_bps,
        tuning=_tuning(w.nccl), shares_layers=p.stage_layers == "auto",
        shares_batch=p.replica_microbatches == "auto", overlap_pipeline=w.overlap_pipeline,
        align_gradients=w.align_gradients, align_parameters=w.align_parameters,
    )  # fmt: skip
    if None not in (microbatch, vpp, recompute):
        return job
    replica_batch = w.global_batch // p.dp if w.global_batch is not None else w.n_microbatch * (microbatch or 1)
    return choose(job, replica_batch, microbatch, vpp, recompute)


def _tuning(nccl: Any) -> Tuning:
    """What [workload.nccl] asks for."""
    of_kind = {
        kind: KindTuning(one.algorithm, one.protocol, one.channels or 0, one.groups)
        for kind, one in nccl.of_kind.items()
    }
    return Tuning(nccl.protocol, nccl.channels or 0, nccl.nvls, of_kind)


def _dtypes(w: Any) -> dict[str, Any]:
    """Formats of tensors that are not the usual ones of the precision."""
    given = {key: dtype for key, dtype in w.dtypes if dtype is not None}
    given |= {"gradients": w.gradients} if w.gradients else {}
    return {f"{key.removesuffix('s')}_dtype": dtype for key, dtype in given.items()}


def _devices(config: Config, server_of_gpu: np.ndarray) -> tuple[tuple[Device, ...], dict[int, float]]:
    """The type of every GPU, or one for all, and who is slower."""
    w: Any = config.workload
    known = training_devices(config)
    usual = known[w.compute.gpu]
    rows = getattr(config.topology, "server", [])
    of_server = [known[row.gpu] if row.gpu else usual for row in rows for _ in range(row.count)]
    if not w.gpus and set(of_server) <= {usual}:
        return (usual,), {}
    devices = [of_server[server] if rows else usual for server in server_of_gpu.tolist()]
    slowness: dict[int, float] = {}
    for i, group in enumerate(w.gpus):
        unknown = sorted(set(group.servers) - set(server_of_gpu.tolist()))
        if unknown:
            where, found = f"[[workload.gpus]] {i}: servers", f"found {unknown[0]}"
            raise ConfigError(where, found, f"servers 0 to {server_of_gpu.max()}")
        for gpu in np.flatnonzero(np.isin(server_of_gpu, group.servers)).tolist():
            devices[gpu] = known[group.gpu] if group.gpu else devices[gpu]
            if group.slowness > 1:
                slowness[gpu] = group.slowness
    return tuple(devices), slowness


def training_job(w: Any) -> TrainingJob:
    """The job of a [workload] without a GPU type."""
    model = (
        PRESETS[w.preset]
        if w.preset
        else GptModel(
            w.model.layers, w.model.hidden, w.model.vocabulary, w.model.sequence, w.model.experts, w.model.top_k
        )
    )
    return TrainingJob(
        model=model,
        tp=w.parallel.tp,
        dp=w.parallel.dp,
        pp=w.parallel.pp,
        ep=w.parallel.ep,
        microbatch=w.microbatch,
        n_microbatch=w.n_microbatch,
        tp_packets=w.tp == "packets",
        flops_per_s=round(w.compute.peak_flops * w.compute.efficiency),
        peak_flops_per_s=w.compute.peak_flops,
        tp_alpha_ps=w.tp_model.alpha_ps,
        tp_bandwidth_bps=w.tp_model.bandwidth_bps,
    )
