"""What the keys of kind = "training" must satisfy together."""

from collections.abc import Iterator

from pdes.config.tables.devices import device_faults, gpu_fault
from pdes.config.tables.fields import Fault
from pdes.config.tables.training import NOT_WITH_GPU, SIMPLE_KEYS, SIMPLE_PRESETS, SIMPLE_TABLE_KEYS
from pdes.config.tables.transports import Path, transport_faults
from pdes.config.tables.workload import TrainingConfig
from pdes.units import shown


def training_faults(workload: TrainingConfig, n_host: int | None) -> Iterator[Fault]:
    """Faults of a [workload] of kind "training"."""
    parallel, model = workload.parallel, workload.model
    if (workload.preset is None) == (model is None):
        found = "is missing, and so is [workload.model]" if model is None else "is there, and so is [workload.model]"
        yield Fault(("workload", "preset"), found, "Accepted: one of the two")
    if n_host is not None and n_host != parallel.n_gpu and parallel.stage_tp is not None:
        found = f"{parallel.n_gpu} GPUs in all, but [topology] has {n_host}"
        yield Fault(("workload", "parallel", "stage_tp"), found, f"Accepted: sizes whose sum is {n_host}")
    elif n_host is not None and n_host != parallel.n_gpu:
        cp = ("cp * ", f"{parallel.cp} * ") if parallel.cp > 1 else ("", "")
        sizes = f"tp * {cp[0]}dp * pp = {parallel.tp} * {cp[1]}{parallel.dp} * {parallel.pp} = {parallel.n_gpu}"
        found = f"{sizes}, but [topology] has {n_host} GPUs"
        yield Fault(("workload", "parallel"), found, f"Accepted: sizes whose product is {n_host}")
    if workload.compute.gpu is not None:
        yield from _by_kernel_faults(workload)
        return
    yield from _simple_faults(workload)
    if model is not None and model.layers % parallel.pp:
        accepted = f"Accepted: a multiple of pp = {parallel.pp}"
        yield Fault(("workload", "model", "layers"), f"found {model.layers}", accepted)
    for key in ("hidden", "heads"):
        size = None if model is None else getattr(model, key)
        if size is not None and size % parallel.tp:
            accepted = f"Accepted: a multiple of tp = {parallel.tp}"
            yield Fault(("workload", "model", key), f"found {size}", accepted)
    yield from _expert_faults(workload)


def _expert_faults(workload: TrainingConfig) -> Iterator[Fault]:
    parallel, model = workload.parallel, workload.model
    if (parallel.tp * parallel.dp) % parallel.ep:
        accepted = f"Accepted: a divisor of tp * dp = {parallel.tp} * {parallel.dp}, the GPUs of a pipeline stage"
        yield Fault(("workload", "parallel", "ep"), f"found {parallel.ep}", accepted)
    if model is not None and model.experts % parallel.ep:
        accepted = "Accepted: 1 for a dense model" if model.experts == 1 else f"Accepted: a divisor of {model.experts}"
        found = f"found {parallel.ep}, and [workload.model] experts is {model.experts}"
        yield Fault(("workload", "parallel", "ep"), found, accepted)
    if model is not None and 1 < model.experts < model.top_k:
        accepted = f"Accepted: 1 to {model.experts}, the experts"
        yield Fault(("workload", "model", "top_k"), f"found {model.top_k}", accepted)


def _simple_faults(workload: TrainingConfig) -> Iterator[Fault]:
    """Without a GPU type: keys that only make sense with one."""
    accepted = "Accepted: with [workload.compute] gpu"
    for name, field in type(workload).model_fields.items():
        if name in workload.model_fields_set and name not in SIMPLE_KEYS:
            yield Fault(("workload", field.alias or name), "is there, but [workload.compute] gpu is not", accepted)
    for table, keys in SIMPLE_TABLE_KEYS.items():
        found = getattr(workload, table)
        if found is None:
            continue
        for name in sorted(found.model_fields_set - keys):
            key = type(found).model_fields[name].alias or name
            yield Fault(("workload", table, key), "is there, but [workload.compute] gpu is not", accepted)
    if workload.preset is not None and workload.preset not in SIMPLE_PRESETS:
        names = ", ".join(map(shown, SIMPLE_PRESETS))
        found = f"found {shown(workload.preset)}, and [workload.compute] gpu is missing"
        yield Fault(("workload", "preset"), found, f"Accepted: with gpu, or one of {names}")
    if workload.microbatch == "auto":
        found = 'found "auto", and [workload.compute] gpu is missing'
        yield Fault(("workload", "microbatch"), found, "Accepted: a number, or with gpu")


def _kernels_faults(workload: TrainingConfig) -> Iterator[Fault]:
    """Two files for one type, or a file of what is not used."""
    compute = workload.compute
    own = workload.devices.get(compute.gpu or "")
    for key in ("kernels", "layer_times"):
        if getattr(compute, key) is not None and own is not None and getattr(own, key) is not None:
            found = f"is there, and so is [workload.devices.{compute.gpu}] {key}"
            yield Fault(("workload", "compute", key), found, "Accepted: one of the two")
    yield from _layer_times_faults(workload)
    if compute.kernels is not None and compute.pass_times_ps is not None:
        found = "is there, and so is pass_times, which stands for all kernels of the layers"
        yield Fault(("workload", "compute", "kernels"), found, "Accepted: one of the two")


def _layer_times_faults(workload: TrainingConfig) -> Iterator[Fault]:
    """Times of layers, and what says the same otherwise or is to be chosen by kernels."""
    compute = workload.compute
    measured = [(("workload", "compute"), compute)] if compute.layer_times is not None else []
    devices = workload.devices.items()
    measured += [(("workload", "devices", name), one) for name, one in devices if one.layer_times is not None]
    for path, table in measured:
        if table.kernels is not None:
            found = "is there, and so is layer_times, which stands for all kernels of the layers"
            yield Fault((*path, "kernels"), found, "Accepted: one of the two")
        if compute.pass_times_ps is not None:
            found = "is there, and so is [workload.compute] pass_times"
            yield Fault((*path, "layer_times"), found, "Accepted: one of the two")
        for key, value in (("microbatch", workload.microbatch), ("recompute", workload.recompute)):
            if value == "auto":
                accepted = f"Accepted: with a given {key}, as it was measured"
                yield Fault((*path, "layer_times"), f'is there, and {key} is "auto"', accepted)


def _stage_faults(workload: TrainingConfig) -> Iterator[Fault]:
    """Layers by stage, and what they do not go with."""
    parallel, path = workload.parallel, ("workload", "parallel", "stage_layers")
    if parallel.stage_layers == "even":
        return
    is_auto = parallel.stage_layers == "auto"
    found = 'found "auto"' if is_auto else "is a list"
    if parallel.vpp == "auto" or (is_auto and parallel.vpp != 1):
        accepted = "Accepted: with vpp = 1" if is_auto else "Accepted: with a number of chunks"
        yield Fault(path, f"{found}, and vpp is {shown(parallel.vpp)}", accepted)
    if is_auto and workload.schedule == "dualpipe":
        yield Fault(path, f'{found}, and schedule is "dualpipe"', "Accepted: with other schedules, or a list")
    if workload.compute.pass_times_ps is not None:
        where = "is there, and so is [workload.compute] pass_times, which are those of every stage"
        yield Fault(path, where, "Accepted: one of the two")


def _stage_tp_faults(workload: TrainingConfig) -> Iterator[Fault]:
    """Unequal tensor-parallel sizes, which no closed form prices: nothing is chosen with them."""
    parallel = workload.parallel
    if parallel.stage_tp is None:
        return
    chosen = {
        "microbatch": workload.microbatch, "recompute": workload.recompute, "vpp": parallel.vpp,
        "stage_layers": parallel.stage_layers, "replica_microbatches": parallel.replica_microbatches,
    }  # fmt: skip
    found = [f'{key} is "auto"' for key, value in chosen.items() if value == "auto"]
    found += ['placement is "optimised"'] if workload.placement == "optimised" else []
    if workload.compute.pass_times_ps is not None:
        found.append("[workload.compute] pass_times is there, which is that of every stage")
    for what in found:
        accepted = "Accepted: with given sizes, and a placement in order or as listed"
        yield Fault(("workload", "parallel", "stage_tp"), f"is there, and {what}", accepted)


def _replica_faults(workload: TrainingConfig) -> Iterator[Fault]:
    """Microbatches by replica, and what they do not go with."""
    listed, path = workload.parallel.replica_microbatches, ("workload", "parallel", "replica_microbatches")
    if listed == "even":
        return
    for key, value in (("microbatch", workload.microbatch), ("vpp", workload.parallel.vpp)):
        if value == "auto":
            yield Fault(path, f'is there, and {key} is "auto"', f"Accepted: with a number for {key}")
    if listed == "auto":
        return
    if workload.microbatches is not None:
        yield Fault(("workload", "microbatches"), "is there, and so is a list of replicas'", "Accepted: one of the two")
    microbatch, batch = workload.microbatch, workload.global_batch
    if batch is not None and isinstance(microbatch, int) and batch != microbatch * sum(listed):
        found = f"found {batch}, and replica_microbatches are {sum(listed)} of {microbatch} in all"
        yield Fault(("workload", "global_batch"), found, f"Accepted: {microbatch * sum(listed)}, or none")


def _dtypes_faults(workload: TrainingConfig) -> Iterator[Fault]:
    """Formats that are given twice, or of tensors that a model does not have."""
    dtypes = workload.dtypes
    if dtypes.gradients is not None and workload.gradients:
        found = "is there, and so is [workload.dtypes] gradients"
        yield Fault(("workload", "gradients"), found, "Accepted: one of the two")
    for key in ("dispatch", "combine"):
        if getattr(dtypes, key) is not None and workload.parallel.ep == workload.parallel.etp == 1:
            found = "is there, but [workload.parallel] ep and etp are 1: tokens stay where they are"
            yield Fault(("workload", "dtypes", key), found, "Accepted: with ep or etp of 2 or more")


def _by_kernel_faults(workload: TrainingConfig) -> Iterator[Fault]:
    """With a GPU type: keys that say the same otherwise, and sizes that do not go together."""
    yield from device_faults(workload.devices)
    yield from gpu_fault(("workload", "compute", "gpu"), workload.compute.gpu, workload.devices)
    for i, group in enumerate(workload.gpus):
        yield from gpu_fault(("workload", "gpus", i, "gpu"), group.gpu, workload.devices)
    used: list[tuple[Path, str]] = [(("workload", "transport"), workload.transport)]
    used += [
        (("workload", "gpus", i, "transport"), one.transport) for i, one in enumerate(workload.gpus) if one.transport
    ]
    yield from transport_faults(workload.transports, used)
    for table, keys in NOT_WITH_GPU.items():
        found = getattr(workload, table) if table else workload
        for name in sorted(found.model_fields_set & keys):
            path = ("workload", table, name) if table else ("workload", name)
            yield Fault(path, "is there, and so is [workload.compute] gpu", "Accepted: without a gpu")
    yield from _kernels_faults(workload)
    yield from _stage_tp_faults(workload)
    yield from _stage_faults(workload)
    yield from _replica_faults(workload)
    yield from _dtypes_faults(workload)
    if workload.nccl.all_to_all is not None and workload.routing_skew:
        found = "is there, and so is routing_skew, with which every message has a size of its own"
        yield Fault(("workload", "nccl", "all-to-all"), found, "Accepted: with routing_skew = 0")
    if workload.microbatches is not None and workload.global_batch is not None:
        yield Fault(("workload", "global_batch"), "is there, and so is microbatches", "Accepted: one of the two")
    batch, dp, microbatch = workload.global_batch, workload.parallel.dp, workload.microbatch
    listed = isinstance(workload.parallel.replica_microbatches, tuple)
    if batch is not None and not listed and batch % (dp * (microbatch if isinstance(microbatch, int) else 1)):
        accepted = f"Accepted: a multiple of dp * microbatch = {dp} * {microbatch}"
        yield Fault(("workload", "global_batch"), f"found {batch}", accepted)
    if microbatch == "auto" and batch is None:
        yield Fault(("workload", "microbatch"), 'found "auto" without global_batch', "Accepted: with global_batch")
    if workload.preset is None:
        for key in ("layers", "sequence"):
            if getattr(workload, key) is not None:
                yield Fault(("workload", key), "is there, but preset is not", "Accepted: in [workload.model]")
    model = workload.model
    if model is not None and model.heads is None:
        yield Fault(("workload", "model", "heads"), "is missing", "Accepted: a whole number from 1")
