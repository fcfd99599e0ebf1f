"""MSCCL files: what they are carried out as, what each GPU ends with, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from models.topology.graph import LinkKind
from models.topology.rail_optimised import rail_optimised
from models.workload.collectives import Collective, plan_collectives
from models.workload.nccl.msccl import read_msccl
from models.workload.nccl.msccl_check import check_algorithm, expected
from models.workload.nccl.options import CollectiveOptions
from models.workload.nccl.planner import NCCL_OPERATIONS, NcclPlanner, Planned
from pdes.errors import ConfigError
from reference.network_case import make_plan_case

GBPS, NS = 10**9, 1000
Step = tuple[str, str, int, str, int]
"""(type, source buffer, source offset, destination buffer, destination offset)"""


def algo(coll: str, n_chunk: int, gpus: list[list[tuple[int, int, list[str]]]], inplace: int = 1) -> str:
    """A file; gpus[g]: (send, recv, steps as XML attributes) of each threadblock."""
    text = f'<algo name="x" proto="Simple" nchannels="1" nchunksperloop="{n_chunk}" ngpus="{len(gpus)}" '
    text += f'coll="{coll}" inplace="{inplace}">\n'
    for g, threadblocks in enumerate(gpus):
        text += f'<gpu id="{g}" i_chunks="{n_chunk}" o_chunks="{n_chunk}" s_chunks="1">\n'
        for i, (send, recv, steps) in enumerate(threadblocks):
            text += f'<tb id="{i}" send="{send}" recv="{recv}" chan="0">\n'
            text += "".join(f'<step s="{k}" {step}/>\n' for k, step in enumerate(steps)) + "</tb>\n"
        text += "</gpu>\n"
    return text + "</algo>\n"


def step(kind: str, src: int, dst: int, buffers: str = "ii", after: tuple[int, int] = (-1, -1), cnt: int = 1) -> str:
    return (
        f'type="{kind}" srcbuf="{buffers[0]}" srcoff="{src}" dstbuf="{buffers[1]}" dstoff="{dst}" cnt="{cnt}" '
        f'depid="{after[0]}" deps="{after[1]}" hasdep="0"'
    )


def ring(n: int) -> str:
    """An all-reduce as MSCCL's compiler writes it: fused steps, one threadblock for each GPU."""
    gpus = []
    for g in range(n):
        steps = [step("s", g, g)]
        steps += [step("rrcs", (g - t) % n, (g - t) % n) for t in range(1, n)]
        steps += [step("rcs", (g - t) % n, (g - t) % n) for t in range(0, n - 2)]
        gpus.append([((g + 1) % n, (g - 1) % n, [*steps, step("r", (g + 2) % n, (g + 2) % n)])])
    return algo("allreduce", n, gpus)


def star() -> str:
    """Three GPUs; 0 sums what 1 and 2 send in threadblocks that wait for each other, and sends it back."""
    root = [
        (-1, 1, [step("rrc", 0, 0)]),
        (-1, 2, [step("rrc", 0, 0, after=(0, 0))]),
        (1, -1, [step("nop", -1, -1, after=(1, 0)), step("s", 0, 0)]),
        (2, -1, [step("s", 0, 0, after=(1, 0))]),
    ]
    return algo("allreduce", 1, [root, *([(0, 0, [step("s", 0, 0), step("r", 0, 0)])] for _ in range(2))])


def gather() -> str:
    """An all-gather of two GPUs from their inputs to their outputs, two chunks at a time."""
    gpus = []
    for g in range(2):
        own = step("cpy", 0, 2 * g, "io", cnt=2)
        gpus.append([(1 - g, 1 - g, [own, step("s", 0, 0, "io", cnt=2), step("r", 0, 2 - 2 * g, "oo", cnt=2)])])
    return algo("allgather", 4, gpus, inplace=0)


ALGORITHMS = {"ring of 2": ring(2), "ring of 5": ring(5), "star": star(), "gather": gather()}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def to_file(text: str) -> Path:
        path = tmp_path / "algorithm.xml"
        path.write_text(text)
        return path

    return to_file


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_gpu_ends_with_what_the_collective_says(name, write):
    path = write(ALGORITHMS[name])
    algorithm = read_msccl(path)
    for gpu, buffers in enumerate(check_algorithm(algorithm, path)):
        for place, value in expected(algorithm, gpu).items():
            assert buffers[place] == value


@pytest.mark.parametrize("per_server", [1, 2, 5])
def test_it_runs_between_servers_as_messages_and_inside_them_timed(per_server, write):
    """A ring of five: each sends 2 * 4 chunks to the next; over the network where that is in another server."""
    path = write(ring(5))
    job = Collective("x", "all-reduce", 5000, tuple(range(5)))
    n_host = 5 if per_server in (1, 5) else 6
    planner = NcclPlanner("h100", np.arange(n_host) // per_server, {"x": Planned(CollectiveOptions(), msccl=path)})
    plan = plan_collectives([job], n_host, 2, planner.parts, NCCL_OPERATIONS)
    between = {(g, (g + 1) % 5) for g in range(5) if g // per_server != (g + 1) % 5 // per_server}
    sent = dict(zip(zip(plan.pair_src.tolist(), plan.pair_dst.tolist(), strict=True), plan.pair_bytes, strict=True))
    assert sent == dict.fromkeys(between, 2 * 8 * 1000)
    topology = rail_optimised(n_host, per_server, 8, LinkKind(400 * GBPS, 500 * NS), LinkKind(400 * GBPS, 500 * NS))
    outcome = make_plan_case(topology, plan, window_bytes=10**6).run()
    assert len(outcome.tasks) == plan.n_task and len(outcome.flows) == plan.n_flow
    if per_server == 5:  # a launch and eight steps of 1,000 bytes, one after the other, in each of two iterations
        step_ps = (14_200_000 - 6_000_000) // 14 + -(-1000 * 10**6 // 306_000)
        assert max(row[6] for row in outcome.tasks) == 2 * (6_000_000 + 8 * step_ps)


@pytest.mark.parametrize("name", ["star", "gather"])
def test_gates_between_threadblocks_end_in_every_iteration(name, write):
    path = write(ALGORITHMS[name])
    algorithm = read_msccl(path)
    n = len(algorithm.gpus)
    for servers in (np.arange(n), np.zeros(n, int)):
        planner = NcclPlanner("h100", servers, {"x": Planned(CollectiveOptions(), msccl=path)})
        job = Collective("x", algorithm.operation, 1000, tuple(range(n)))
        plan = plan_collectives([job], n, 3, planner.parts, NCCL_OPERATIONS)
        per_server = n if servers[-1] == 0 else 1
        topology = rail_optimised(n, per_server, 8, LinkKind(400 * GBPS, 500 * NS), LinkKind(400 * GBPS, 500 * NS))
        outcome = make_plan_case(topology, plan, window_bytes=10**6).run()
        assert len(outcome.tasks) == plan.n_task and len(outcome.flows) == plan.n_flow


@pytest.mark.parametrize(
    "text, message",
    [
        ("<algo", "algorithm.xml: unclosed token"),
        ("<x/>", r"first element: <x>\. Accepted: <algo>"),
        (ring(2).replace("allreduce", "scan"), r'algo: coll = "scan"\. Accepted: allreduce'),
        (ring(2).replace('ngpus="2"', 'ngpus="3"'), r"algo: gpus \[0, 1\] and ngpus = 3"),
        (ring(2).replace('type="r"', 'type="q"'), r'gpu 0, tb 0, step 2: type = "q"\. Accepted: cpy'),
        (ring(2).replace('cnt="1"', 'cnt="one"'), r'step 0: cnt = "one"\. Accepted: a whole number'),
        (
            ring(2).replace('cnt="1"', f'cnt="{10**25}"'),
            r"step 0: cnt = .*\. Accepted: a whole number, at most 1,048,576",
        ),
        (ring(2).replace('cnt="1"', 'cnt="3"'), r"step 0: cnt = 3\. Accepted: at most nchunksperloop = 2"),
        (ring(2).replace('nchunksperloop="2"', f'nchunksperloop="{10**25}"'), r"algo: nchunksperloop = "),
        (
            ring(2).replace('nchunksperloop="2"', 'nchunksperloop="999999"'),
            r"nchunksperloop = 999999\. .* at most 1,048,",
        ),
        (ring(2).replace('srcoff="0"', f'srcoff="{10**25}"'), r"step \d: srcoff = "),
        (
            ring(2).replace('ngpus="2"', f'ngpus="{"9" * 5000}"'),
            r'algo: ngpus = "999.*\. Accepted: a whole number, at most',
        ),
        ('<?xml version="1.0" encoding="none-such"?>' + ring(2), "algorithm.xml: unknown encoding"),
        (algo("allreduce", 2**19, [[(1, 1, [step("s", 0, 0, cnt=2**19)] * 9)], [(0, 0, [])]]), "step 8: cnt = 524288"),
        (ring(2).replace('send="1"', 'send="-1"'), r'gpu 0, tb 0, step 0: type = "s" without a peer'),
        (ring(2).replace('depid="-1"', 'depid="7"'), r"depid = 7, deps = -1\. Accepted: a step of the same GPU"),
        (ring(3).replace("rrcs", "rcs"), r"GPU 0 ends with .* as all-reduce has it"),
        (ring(3).replace('type="s"', 'type="nop"'), "gpu 0, tb 0 waits for ever at step 1"),
        (star().replace('type="r"', 'type="nop"'), "GPU 1 never receives what GPU 0 sends on channel 0"),
        (ring(2).replace('type="r"', 'type="rrc"'), r"GPU 0 chunk 0 x2"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(text, message, write):
    path = write(text)
    with pytest.raises(ConfigError, match=message):
        check_algorithm(read_msccl(path), path)


def test_a_file_for_another_collective_is_refused(write):
    path = write(ring(3))
    planner = NcclPlanner("h100", np.arange(4), {"x": Planned(CollectiveOptions(), msccl=path)})
    with pytest.raises(ConfigError, match=r"all-reduce of 3 GPUs\. Accepted: all-reduce of 4 GPUs, as x is"):
        plan_collectives([Collective("x", "all-reduce", 1, (0, 1, 2, 3))], 4, 1, planner.parts, NCCL_OPERATIONS)
