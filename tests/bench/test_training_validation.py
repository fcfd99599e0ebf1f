"""Claims about the validation bench: its configs are what the rows say, and small ones come first."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import training_validation
from measured_config import settled
from training_validation import case_config, cost, n_message

from fit_rows import Case, NotCoveredError
from models.compute.layout import Layout
from models.compute.presets import PRESETS
from pdes.config import load_config
from pdes.scenario.training import compiled_job, model_shape

LAYOUT = Layout(tp=4, dp=2, pp=4, cp=2, vpp=5, microbatch=1, sequence_parallel=True, zero=1, causal_half=True)
CASE = Case("row 1", "rows", PRESETS["llama3-70b"], LAYOUT, "h100", 14.66, 128, 400 * 10**9, overlaps_dp=True)


def test_a_config_says_what_the_row_does(tmp_path: Path) -> None:
    path = tmp_path / "case.toml"
    path.write_text(case_config(CASE))
    config = load_config(path)
    job = compiled_job(config, np.arange(64) // 8, 400 * 10**9)
    assert replace(model_shape(config.workload), head_dim=0) == CASE.shape  # 0: hidden / heads, as it is given
    assert job.layout == replace(LAYOUT, n_microbatch=64)
    assert job.device(0).name == "h100" and job.overlap_gradients and job.overlap_parameters
    assert not job.cross_rail_rings
    path.write_text(case_config(replace(CASE, cross_rail_rings=True)))
    assert compiled_job(load_config(path), np.arange(64) // 8, 400 * 10**9).cross_rail_rings


def test_what_a_row_leaves_open_is_chosen(tmp_path: Path) -> None:
    path = tmp_path / "case.toml"
    path.write_text(case_config(replace(CASE, open_microbatch=True, open_vpp=True)))
    layout = compiled_job(load_config(path), np.arange(64) // 8, 400 * 10**9).layout
    assert layout.microbatch * layout.n_microbatch == 64 and layout.n_microbatch % 4 == 0


def test_more_gpus_and_microbatches_cost_more() -> None:
    assert n_message(CASE) < n_message(replace(CASE, batch=256))
    assert n_message(CASE) < n_message(replace(CASE, layout=replace(LAYOUT, dp=4)))
    behind = replace(CASE, overlaps_dp=False)  # one sum of gradients; beside the backward pass a bucket for each layer
    assert n_message(CASE) - n_message(behind) == 64 * 2 * 2 * (80 // 4 - 1)
    four = replace(CASE, layout=replace(LAYOUT, dp=4))
    assert cost(replace(four, batch=1024)) < cost(replace(four, cross_rail_rings=True))


def test_what_is_open_is_tried_within_memory_and_what_was_taken_is_said() -> None:
    whole = replace(CASE, open_recompute=("none", "selective", "full"), open_microbatch=True, open_vpp=True,
                    open_sequence=True, unsaid=(("vocab", "128256"),))  # fmt: skip
    found = settled(whole)
    values = dict(found.taken)
    assert list(values) == ["mbs", "vpp", "recompute", "seq_par", "vocab"] and found.fits
    layout = found.case.layout
    assert (values["mbs"], values["vpp"]) == (str(layout.microbatch), str(layout.vpp))
    assert (values["recompute"], values["seq_par"]) == (layout.recompute, "yes")
    assert settled(found.case).taken == whole.unsaid and settled(found.case).case == found.case
    assert found.text() == "; left open: " + ", ".join(f"{column} {value}" for column, value in found.taken)
    tight = replace(whole, device="a100-40g", shape=replace(PRESETS["llama3-70b"], sequence=16384))
    assert settled(tight).case.layout.recompute != "none"


def test_optimizers_are_split_only_where_they_have_to_be() -> None:
    layout = Layout(tp=8, pp=1, dp=8, microbatch=1, recompute="full", sequence_parallel=True)
    roomy = replace(CASE, layout=layout, shape=PRESETS["gpt-7b"], open_zero=True)
    assert dict(settled(roomy).taken) == {"dist_opt": "no"} and settled(roomy).case.layout.zero == 0
    tight = replace(roomy, shape=PRESETS["llama2-70b"])
    assert dict(settled(tight).taken) == {"dist_opt": "yes"} and settled(tight).fits
    never = replace(roomy, shape=PRESETS["llama3-405b"])
    assert not settled(never).fits and settled(never).text().endswith(", which does not fit the memory")


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v2", "qwen3-30b-a3b", "moe-8x7b"])
def test_experts_of_a_row_are_in_its_config(name: str, tmp_path: Path) -> None:
    layout = Layout(dp=32, ep=8, microbatch=1, zero=1, causal_half=True)
    found = replace(CASE, shape=replace(PRESETS[name], layers=4), layout=layout)
    (tmp_path / "case.toml").write_text(case_config(found))
    job = compiled_job(load_config(tmp_path / "case.toml"), np.arange(32) // 8, 400 * 10**9)
    said, read = (replace(shape, head_dim=0, kv_heads=0, ffn=0, expert_ffn=0) for shape in (found.shape, job.shape))
    assert read == said  # but for sizes that follow from others:
    for size in ("d_head", "n_kv", "d_ffn", "d_expert"):
        assert getattr(job.shape, size) == getattr(found.shape, size)
    assert job.layout.ep == 8


def test_a_model_that_no_config_can_say_is_not_covered() -> None:
    with pytest.raises(NotCoveredError, match="a config cannot say this model"):
        settled(replace(CASE, shape=replace(PRESETS["deepseek-v3"], n_dense_layers=1)))
    with pytest.raises(NotCoveredError, match="tp"):
        settled(replace(CASE, layout=replace(LAYOUT, tp=3)))


ROWS = """\
id,set,source,year,model,layers,hidden,ffn,heads,kv_heads,seq,vocab,experts,gpu,gpus,gpus_per_node,net_Gbps_per_gpu,\
tp,pp,vpp,dp,cp,ep,mbs,gbs,precision,recompute,seq_par,dist_opt,iter_s,notes
new-dense,Q,x,2024,GPT-7B,32,4096,16384,32,32,2048,51200,,H100-80G,32,8,400,2,4,,4,,,1,64,bf16,none,,no,3.5,
new-moe,Q,x,2024,Mixtral-8x7B,32,4096,14336,32,8,4096,32000,8,H100-80G,32,8,400,1,1,,32,,8,1,64,bf16,full,no,yes,3.5,
new-old,Q,x,2024,GPT-7B,32,4096,16384,32,32,2048,51200,,V100,32,8,400,2,4,,4,,,1,64,bf16,none,no,no,3.5,
"""


def test_rows_of_an_unknown_set_run_and_say_what_was_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    ran = []

    def predict(case: Case, *_: Any) -> tuple[float, float]:
        ran.append(case)
        return 7.0, 1.0

    monkeypatch.setattr(training_validation, "predict", predict)
    command = ["x", "--rows", str(tmp_path / "rows.csv"), "--out", str(tmp_path / "out"), "--each"]
    monkeypatch.setattr("sys.argv", command)
    training_validation.main()
    lines = capsys.readouterr().out.splitlines()
    assert {case.id for case in ran} == {"new-dense", "new-moe"}
    dense = next(case for case in ran if case.id == "new-dense").layout
    assert not any(case.open_vpp or case.open_sequence for case in ran) and dense.vpp > 1
    assert f"new-dense: 3.5 s, predicted 7 s, +100.0 %, 1.0 s; left open: vpp {dense.vpp}, seq_par yes" in lines
    assert "new-moe: 3.5 s, predicted 7 s, +100.0 %, 1.0 s; left open: top_k 2" in lines
    assert any(line.startswith("not covered: new-old: gpu: found 'V100'.") for line in lines)
    assert "left open, rows: seq_par 1, top_k 1, vpp 1" in lines
    figures = json.loads(lines[-1])
    assert (figures["rows"], figures["not_covered"]) == (2, 1)
    assert figures["left_open"] == {"seq_par": 1, "top_k": 1, "vpp": 1}
