"""A job's data on its way from storage hosts to its GPUs, before it begins: all of it is asked for at once."""

from models.workload.operations import Operation
from models.workload.plan import SLOT_PAIR, PlanBuilder, WorkloadPlan
from models.workload.program import OP_RECEIVE, OP_SEND


def plan_input(size_bytes: int, n_storage: int, n_host: int) -> WorkloadPlan:
    """Hosts 0 .. n_storage - 1 serve the others in turn; each gets the same share, the first ones a byte more.

    It ends when the last GPU has its share.
    """
    builder = PlanBuilder("input", n_host)
    n = n_host - n_storage
    share, more = divmod(size_bytes, n)
    for i in range(n):
        own = max(share + (i < more), 1)
        source, gpu = i % n_storage, n_storage + i
        slots = [(SLOT_PAIR, builder.pair(source, gpu))]
        builder.stream(source, "input", [Operation(OP_SEND, 0, size_bytes=own, tag="input")], slots)
        builder.stream(gpu, "input", [Operation(OP_RECEIVE, 0, task="collective", task_bytes=own)], slots)
    return builder.finish({"payload_bytes": builder.payload_bytes()})
