"""Small profiles in the forms of PyTorch's profiler and Nsight Systems, made here: kernels on streams and calls."""

import json
from pathlib import Path

COMPUTE_STREAM, NCCL_STREAM = 7, 20
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def event(category: str, name: str, ts: float, dur: float, **args: object) -> dict:
    """An event of a time span, us."""
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 1, "ts": ts, "dur": dur, "args": args}


def kernel(
    name: str, ts: float, dur: float, stream: int = COMPUTE_STREAM, correlation: int = 0, **args: object
) -> dict:
    """A kernel on a stream of GPU 0."""
    return event("kernel", name, ts, dur, device=0, stream=stream, correlation=correlation, **args)


def launch(correlation: int, ts: float) -> dict:
    """The call that launched a kernel."""
    return event("cuda_runtime", "cudaLaunchKernel", ts, 2, correlation=correlation)


def words(name: str, n_element: int, ranks: list[int], group: str = "0", **more: object) -> dict:
    """What PyTorch says of a communication of floats."""
    return {
        "Collective name": name, "dtype": "Float", "In msg nelems": n_element, "Out msg nelems": n_element,
        "Group size": len(ranks), "Process Group Name": group, "Process Group Ranks": str(ranks), **more,
    }  # fmt: skip


def all_reduce(ts: float, dur: float, n_element: int, ranks: list[int], **args: object) -> dict:
    """A kernel of an all-reduce on NCCL's stream."""
    return kernel(ALL_REDUCE, ts, dur, **({"stream": NCCL_STREAM} | args), **words("allreduce", n_element, ranks))


def write_kineto(path: Path, events: list[dict], rank: int = 0, n_rank: int = 4, **more: object) -> Path:
    """A trace of one rank."""
    content = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": n_rank}}
    path.write_text(json.dumps(content | more | {"traceEvents": events}))
    return path
