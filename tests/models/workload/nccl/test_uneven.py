"""All-to-alls whose messages differ: what goes over the network, and what is timed inside servers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.workload.nccl.communicator import Communicator
from models.workload.nccl.in_server import in_server_ps
from models.workload.nccl.options import CollectiveOptions
from models.workload.operations import Operation
from models.workload.plan import PlanBuilder
from models.workload.program import OP_GROUP, OP_RECEIVE, OP_SEND
from models.workload.slots import SlotNames

SIZE_BYTES = 8_000_000


def members_of(
    n: int, server_of_gpu: np.ndarray, loads: list[float], by_receiver: bool, gpu_type: str = "h100"
) -> tuple[list[list[Operation]], dict[int, dict[str, list]], list[SlotNames]]:
    """What each of n members does, its slots by name, and the names that its operations' slots have."""
    one = Communicator("ep", [tuple(range(n))], server_of_gpu, gpu_type, CollectiveOptions())
    names = [SlotNames() for _ in range(n)]
    done = [one.uneven(names[i], i, SIZE_BYTES, loads, by_receiver, "ep") for i in range(n)]
    return done, one.connect(PlanBuilder("training", n, 1)), names


@given(
    servers=st.sampled_from([(1, 2), (1, 8), (2, 1), (2, 4), (3, 2), (4, 1)]),
    weights=st.lists(st.floats(0.01, 1.0), min_size=8, max_size=8),
    by_receiver=st.booleans(),
    gpu_type=st.sampled_from(["h100", ""]),
)
def test_what_one_sends_another_takes_in_and_all_of_it_is_sent_or_timed(
    servers: tuple[int, int], weights: list[float], by_receiver: bool, gpu_type: str
) -> None:
    n_server, k = servers
    n = n_server * k
    loads = [n * weight / sum(weights[:n]) for weight in weights[:n]]
    done, slots, names = members_of(n, np.arange(n) // k, loads, by_receiver, gpu_type)
    sent, taken = {}, {}
    for i, operations in enumerate(done):
        of_slot = names[i].resolve(slots[i])
        for operation in operations:
            assert isinstance(operation, Operation)
            if operation.kind == OP_SEND:
                sent[of_slot[operation.slot]] = operation.size_bytes
            elif operation.kind == OP_RECEIVE:
                taken[of_slot[operation.slot]] = operation.task_bytes
    assert sent == taken
    remote = [(i, j) for i in range(n) for j in range(n) if i != j and (not gpu_type or i // k != j // k)]
    wanted = sorted(max(1, round(SIZE_BYTES / n * loads[j if by_receiver else i])) for i, j in remote)
    assert np.allclose(sorted(sent.values()), wanted, atol=1 + max(loads))
    timed = [sum(operation.kind == OP_GROUP for operation in operations) for operations in done]
    assert timed == [int(bool(gpu_type) and k > 1)] * n


@pytest.mark.parametrize("n", [2, 4, 8])
def test_one_that_is_even_takes_what_one_without_loads_takes(n: int) -> None:
    done, *_ = members_of(n, np.zeros(n, np.int64), [1.0] * n, True)
    assert [[o.time_ps for o in operations] for operations in done] == [
        [in_server_ps("h100", "all-to-all", SIZE_BYTES, n)]
    ] * n


@pytest.mark.parametrize("by_receiver", [True, False])
def test_the_busiest_member_of_a_server_keeps_the_others_waiting(by_receiver: bool) -> None:
    """Three of four get or give half as much as they would if all were alike, the fourth two and a half times."""
    done, *_ = members_of(4, np.zeros(4, np.int64), [2.5, 0.5, 0.5, 0.5], by_receiver)
    assert {o.time_ps for operations in done for o in operations} == {
        in_server_ps("h100", "all-to-all", int(2.5 * SIZE_BYTES), 4)
    }


def test_members_that_are_not_side_by_side_send_everything_over_the_network() -> None:
    """Servers of a group's GPUs in turns: which of them are near is not the same for all."""
    done, *_ = members_of(4, np.array([0, 1, 0, 1]), [1.0] * 4, True)
    assert [[o.kind for o in operations] for operations in done] == [[OP_SEND] * 3 + [OP_RECEIVE] * 3] * 4
