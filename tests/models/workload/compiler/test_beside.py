"""Exchanges of data parallelism beside an interleaved pipeline: when stages begin them, and what that changes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pdes
from models.compute.devices import DEVICES
from models.compute.layout import Layout
from models.compute.presets import PRESETS
from models.workload.compiler.job import Job
from models.workload.compiler.tokens import NONE, beside_passes, stage_tokens, summed_last


def job(pp: int, vpp: int, m: int, **options) -> Job:
    layout = Layout(pp=pp, vpp=vpp, dp=2, n_microbatch=m * pp, zero=options.pop("zero", 1))
    return Job(PRESETS["llama2-70b"], layout, (DEVICES["h100"],), **options)


sizes = st.tuples(st.integers(2, 8), st.integers(2, 6), st.integers(1, 4))


@given(sizes, st.data())
def test_stages_begin_by_megatrons_rule(size: tuple[int, int, int], data: st.DataObject) -> None:
    """A chunk c is gathered from virtual microbatch (c - 1) pp - rank on; it is summed behind its last one + rank."""
    pp, vpp, m = size
    stage, one = data.draw(st.integers(0, pp - 1)), job(*size)
    tokens = stage_tokens(one, stage, beside_passes(one))
    forward, backward = ([t for t in tokens if t.which == which] for which in ("forward", "backward"))
    assert {t.starts: k + stage for k, t in enumerate(forward) if t.starts != NONE} == {
        c: (c - 1) * pp for c in range(2, vpp)
    }
    ends = {c: (m - 1) * pp * vpp + (vpp - 1 - c) * pp + pp - 1 for c in range(vpp)}
    expected = {c: k + stage for c, k in ends.items() if k + stage < len(backward)}
    assert {t.sums: k for k, t in enumerate(backward) if t.sums != NONE} == expected
    assert summed_last(tokens) == [c for c in reversed(range(vpp)) if c not in expected]


@given(sizes, st.data())
def test_every_chunk_is_gathered_before_its_first_pass_and_summed_once(size: tuple, data: st.DataObject) -> None:
    stage, one = data.draw(st.integers(0, size[0] - 1)), job(*size)
    tokens = stage_tokens(one, stage, beside_passes(one))
    there, open_chunks = {0, 1}, set(range(size[1]))
    left = {chunk: one.layout.n_microbatch for chunk in open_chunks}
    for token in tokens:
        there |= {token.starts}
        assert token.chunk in there and not token.reduces
        left[token.chunk] -= token.which == "backward"
        if token.sums != NONE:
            assert left[token.sums] == 0
            open_chunks.remove(token.sums)
    assert sorted(summed_last(tokens)) == sorted(open_chunks)


@pytest.mark.parametrize("options", [{"zero": 3}, {"align_gradients": False, "align_parameters": False}])
def test_fsdp_and_unaligned_stages_begin_by_themselves(options: dict) -> None:
    one = job(4, 3, 2, **options)
    beside = beside_passes(one)
    assert not (beside.gathers_together or beside.sums_together)
    tokens = stage_tokens(one, 2, beside)
    assert {(token.starts, token.sums) for token in tokens} == {(NONE, NONE)} and summed_last(tokens) == [2, 1, 0]


CONFIG = """
[topology]
kind = "roft"
gpus = 8
gpus_per_server = 1
nic_rate = "400Gbps"
spine_rate = "400Gbps"
[workload]
kind = "training"
preset = "llama2-70b"
layers = 16
global_batch = 8
zero = 1
[workload.parallel]
tp = 1
dp = 2
pp = 4
vpp = 4
[workload.compute]
gpu = "h100"
[workload.memory]
check = "off"
[wormhole]
mode = "flow"
"""


def iteration(tmp_path, **keys: bool) -> pdes.Result:
    path = tmp_path / f"{'-'.join(map(str, keys.values()))}.toml"
    settings = "".join(f"{key} = {str(value).lower()}\n" for key, value in keys.items())
    path.write_text(CONFIG.replace("zero = 1\n", f"zero = 1\n{settings}"))
    return pdes.simulate(path, out=path.with_suffix(""))


def test_together_a_microbatch_meets_one_exchange_and_not_one_at_every_stage(tmp_path) -> None:
    """The same bytes are sent; each of the later chunks is slowed down once, not at all stages in turn."""
    apart = iteration(tmp_path, align_gradients=False, align_parameters=False)
    together = iteration(tmp_path, align_gradients=True, align_parameters=True)
    sent = [int(np.sum(result.ports["tx_bytes"])) for result in (apart, together)]
    assert sent[0] == sent[1] > 0
    apart_s, together_s = (result.summary["iteration_time_ps"][-1] / 1e12 for result in (apart, together))
    assert together_s < 0.95 * apart_s
