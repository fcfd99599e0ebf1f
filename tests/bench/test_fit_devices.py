"""What the fit computes with: rank correlation, the split of rows, the closed form of a pipeline."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fit_closed_form import NIC_FRAC, collective_s, in_server_s, iteration_s, one_f_one_b_s, pass_s
from fit_devices import (
    FITTED,
    constants_of,
    fit,
    layouts_right,
    leave_one_out,
    of_kernels,
    rank_correlation,
    with_constants,
)
from fit_rows import Case, read_rows
from models.compute.devices import DEVICES, Fit
from models.compute.layout import Layout
from models.compute.lower import segments
from models.compute.model_shape import ModelShape
from models.compute.presets import PRESETS

A100 = DEVICES["a100-80g"]
SMALL = ModelShape(8, 4096, 32, vocabulary=1024)


def case(layout: Layout, measured_s: float = 1.0, shape: ModelShape = SMALL) -> Case:
    return Case("a", "set", shape, layout, "a100-80g", measured_s, layout.n_microbatch, 200 * 10**9)


def test_rank_correlation_of_known_orders() -> None:
    assert rank_correlation((1.0, 2.0, 3.0), (10.0, 20.0, 30.0)) == pytest.approx(1)
    assert rank_correlation((1.0, 2.0, 3.0), (3.0, 2.0, 1.0)) == pytest.approx(-1)
    # 1 - 6 sum d^2 / (n (n^2 - 1)) with d = 1, 1, 0, 0
    assert rank_correlation((1.0, 2.0, 3.0, 4.0), (2.0, 1.0, 3.0, 4.0)) == pytest.approx(1 - 6 * 2 / 60)


def test_layouts_made_right_keep_what_differs_inside_them() -> None:
    two, four = Layout(tp=2), Layout(tp=4)
    cases = [case(two, 2.0), case(two, 8.0), case(four, 6.0)]
    right_s = layouts_right(cases, [1.0, 1.0, 2.0])
    assert right_s == pytest.approx([4.0, 4.0, 6.0])  # sqrt(2 x 8), whose order no factor per layout tells


def test_a_third_of_the_rows_is_held_out() -> None:
    cases = [replace(case(Layout()), id=f"row {i}") for i in range(3000)]
    assert sum(c.held_out for c in cases) == pytest.approx(1000, abs=3 * (3000 * 2 / 9) ** 0.5)


def test_microbatches_add_their_time_and_stages_the_bubble() -> None:
    one, two, five = (iteration_s(case(Layout(n_microbatch=m)), Layout(n_microbatch=m), A100) for m in (1, 2, 5))
    assert five - one == pytest.approx(4 * (two - one))
    layout = Layout(pp=4, n_microbatch=8)
    f, b = (
        pass_s(segments(SMALL, Layout(), A100, "dense", w), case(layout), layout, A100) for w in ("forward", "backward")
    )
    ideal_s = (8 + 3) * 2 * (f + b)  # embedding, head, messages and the optimizer come on top
    assert ideal_s < iteration_s(case(layout), layout, A100) < 1.15 * ideal_s


def exact_1f1b(p: int, m: int, forward: float, backward: float, message: float) -> float:
    """End of the last task, by following every dependency."""
    orders = []
    for stage in range(p):
        warm = min(p - stage - 1, m)
        order = [("f", k) for k in range(warm)]
        order += [task for k in range(m - warm) for task in (("f", warm + k), ("b", k))]
        orders.append(order + [("b", k) for k in range(m - warm, m)])
    ends: dict[tuple[str, int, int], float] = {}
    free, place = [0.0] * p, [0] * p
    while len(ends) < 2 * p * m:
        for stage, order in enumerate(orders):
            while place[stage] < len(order):
                kind, k = order[place[stage]]
                source = (kind, stage - 1 if kind == "f" else stage + 1, k)
                if 0 <= source[1] < p and source not in ends:
                    break
                start = max(free[stage], ends[source] + message if 0 <= source[1] < p else 0.0)
                free[stage] = ends[kind, stage, k] = start + (forward if kind == "f" else backward)
                place[stage] += 1
    return max(free)


@pytest.mark.parametrize("p, m", [(1, 4), (2, 8), (4, 8), (4, 32), (8, 64), (16, 32)])
@pytest.mark.parametrize("message", [0.0, 0.01, 0.3])
def test_the_pipelines_formula_is_the_schedule(p: int, m: int, message: float) -> None:
    formula = one_f_one_b_s(p, m, 1, 3.0, 3.0 * p, message)
    assert formula == pytest.approx(exact_1f1b(p, m, 1.0, 2.0, message), abs=message + 1e-9)


def test_collectives_in_a_server_move_at_the_measured_bandwidth() -> None:
    assert in_server_s("all-reduce", 8, 2**29, "a100") == pytest.approx(4218.4e-6)
    assert in_server_s("all-gather", 8, 2**30, "a100") == pytest.approx(4218.4e-6)
    assert in_server_s("all-reduce", 1, 2**30, "a100") == 0


TABLE_4 = {  # Korthikanti et al.: one layer of 22B on eight A100, microbatch 4; none of it was fitted
    "none": (Layout(tp=8, microbatch=4, flash_attention=False), 7.7, 11.9),
    "sequence": (Layout(tp=8, microbatch=4, flash_attention=False, sequence_parallel=True), 7.2, 11.8),
    "full": (Layout(tp=8, microbatch=4, flash_attention=False, recompute="full"), 7.7, 19.5),
    "selective": (Layout(tp=8, microbatch=4, flash_attention=False, recompute="selective"), 7.7, 13.2),
    "both": (
        Layout(tp=8, microbatch=4, flash_attention=False, recompute="selective", sequence_parallel=True), 7.2, 13.1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE_4)
def test_times_of_one_layer_are_those_measured(name: str) -> None:
    layout, forward_ms, backward_ms = TABLE_4[name]
    shape = PRESETS["gpt-22b"]
    passes = (segments(shape, layout, A100, "dense", which) for which in ("forward", "backward"))
    times_ms = [1e3 * pass_s(run, case(layout, shape=shape), layout, A100) for run in passes]
    assert times_ms == pytest.approx([forward_ms, backward_ms], rel=0.12)
    assert sum(times_ms) == pytest.approx(forward_ms + backward_ms, rel=0.10)


def test_a_fit_finds_the_constants_that_made_the_rows() -> None:
    truth = {"gemm_gamma": 1.7, "memory_gamma": 2.2}
    device = with_constants(A100, truth)
    layouts = [Layout(microbatch=b, tp=t) for b in (1, 4) for t in (1, 2, 8)]
    rows = [
        replace(case(layout, iteration_s(case(layout), layout, device)), id=str(i)) for i, layout in enumerate(layouts)
    ]
    found = fit(rows, A100, tuple(truth), row_error=1e-3)
    assert [found[name] for name in truth] == pytest.approx(list(truth.values()), rel=0.03)


def test_a_source_that_is_left_out_is_predicted_by_the_others_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """Two sources of one truth predict each other; one whose GPU was twice as slow in everything is 50 % off."""
    device = with_constants(A100, {"gemm_gamma": 1.5, "memory_gamma": 1.5})
    layouts = [Layout(microbatch=b, tp=t) for b in (1, 2, 4, 8) for t in (1, 2, 4, 8)]
    rows = [
        replace(case(layout, factor * iteration_s(case(layout), layout, device)), id=f"{name}-{i}", group=name)
        for name, factor in (("one", 1.0), ("two", 1.0), ("slow", 2.0))
        for i, layout in enumerate(layouts)
    ]
    leave_one_out([row for row in rows if row.group != "slow"], {})
    said = {line.split()[1]: float(line.split()[3]) for line in capsys.readouterr().out.splitlines() if "a100" in line}
    assert set(said) == {"one", "two"} and max(said.values()) < 3
    leave_one_out([row for row in rows if row.group != "two"], {})
    said = {line.split()[1]: float(line.split()[3]) for line in capsys.readouterr().out.splitlines() if "a100" in line}
    assert said["slow"] == pytest.approx(50, abs=3) and said["one"] > 70


def test_constants_of_kernels_are_those_that_made_their_times(tmp_path: Path) -> None:
    """Kernels whose times follow from known constants give these back; a fit to iterations then leaves them alone."""
    device, truth = DEVICES["b200"], {"gemm_gamma": 1.7, "attention_gamma": 2.2}
    usual, peak = Fit(), device.peak("bf16")

    def efficiency(counted: float, gamma: float, flops: float, moved_bytes: float) -> float:
        rest_s = usual.memory_gamma * moved_bytes / device.hbm_bytes_per_s + usual.launch_ps * 1e-12
        return counted / peak / (gamma * flops / peak + rest_s)

    products, attention = {}, {}
    for m, n, k in ((4096, 8192, 8192), (512, 1024, 2048), (16384, 4096, 1536)):
        key = f"b=1, m={m}, k={k}, n={n}, layout=TN, accumulate=False, out_dtype=bf16"
        flops, moved = 2 * m * n * k, 2 * m * k + 2 * k * n + 2 * m * n
        products[key] = efficiency(flops, truth["gemm_gamma"], flops, moved)
    for s in (2048, 8192):
        key = f"batch=1, seq_len={s}, head_num=32, kv_head_num=8, qk_head_dim=128, v_head_dim=128, qkv_contiguous=True"
        whole, moved = 2 * s * s * 32 * 256, 2 * s * 256 * 40
        attention[key] = efficiency(whole, truth["attention_gamma"], whole / 2, moved)
    kinds = {"matmul": products, "sdp_fwd": attention, "sdp_bwd": {}}
    path = tmp_path / "b200_kernels.json"
    measured = {kind: {"accurate_efficient_factor": efficiencies} for kind, efficiencies in kinds.items()}
    path.write_text(json.dumps({"accelerator": {"op": measured}}))
    found, ids = of_kernels(path, device)
    assert found == pytest.approx(truth, rel=1e-6)
    assert ids == ["b200_kernels:sdp_fwd:2 kernels", "b200_kernels:matmul:3 kernels"]
    layouts = [Layout(microbatch=b, tp=t) for b in (1, 4) for t in (1, 2)]
    rows = [replace(case(layout, 0.5), id=str(i), device="b200") for i, layout in enumerate(layouts)]
    constants, names = constants_of(rows, device, {"b200": (found, ids)})
    assert {key: constants[key] for key in truth} == found and names[-2:] == ids
    assert set(constants) == {"gemm_gamma", "attention_gamma", *FITTED["b200"]}


def test_an_all_to_all_between_servers_takes_each_gpus_own_nic() -> None:
    """A ring crosses each server's border once, over all its NICs; what goes to everybody does so by its own."""
    known = case(Layout())
    size = 512 * 10**6
    nic_s = size / (known.nic_bps / 8)
    assert collective_s("all-to-all", 64, 8, size, known, "a100") == pytest.approx(56 / 64 * nic_s / NIC_FRAC, rel=1e-2)
    assert collective_s("all-gather", 64, 8, size, known, "a100") < 0.3 * nic_s
    assert collective_s("all-to-all", 8, 8, size, known, "a100") == in_server_s("all-to-all", 8, size, "a100")


def test_rows_that_nobody_fitted_are_all_read() -> None:
    """None of them is among the rows that constants were fitted to."""
    cases, left_out = read_rows(Path(__file__).parents[2] / "bench/unfitted_rows.csv")
    assert len(cases) == 106 and not left_out
    fitted = {row for device in DEVICES.values() for row in device.fit.rows}
    assert not fitted & {case.id for case in cases}
    jax = {case.layout.recompute for case in cases if "MaxText" in case.id}
    assert jax == {("layernorm", "attention", "mlp_up")}
    sizes = {(case.layout.ep, case.layout.etp) for case in cases if "Llama4" in case.id}
    assert sizes == {(64, 1), (128, 4)}
    assert {case.shape.expert_every for case in cases if "Llama4" in case.id} == {2}


def test_rows_are_read_with_their_gaps(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    columns = (
        "id,set,model,layers,hidden,ffn,heads,kv_heads,seq,vocab,experts,gpu,net_Gbps_per_gpu,tp,pp,vpp,dp,cp,ep,mbs,gbs,"
        "precision,recompute,seq_par,dist_opt,iter_s,notes"
    )
    known = "korth-x,B,GPT-22B,48,6144,24576,64,64,2048,51200,,A100-80G,200,8,1,1,1,,,4,4,bf16,full,no,,1.42,"
    left_out = (
        "deepseek-v3-MPFT,M,DeepSeek-V3,61,7168,,128,128,4096,129280,256,H800,400,1,16,,128,,64,,15360,fp8,,,,19.9,"
    )
    path.write_text("\n".join((columns, known, left_out)))
    cases, missing = read_rows(path)
    assert [name for name, _ in missing] == ["deepseek-v3-MPFT"] and "DualPipe" in missing[0][1]
    (found,) = cases
    assert (found.measured_s, found.batch, found.layout.tp, found.layout.recompute) == (1.42, 4, 8, "full")
    assert not (found.open_microbatch or found.open_vpp or found.open_recompute)
