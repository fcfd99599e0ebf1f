"""Claims about the validation bench: its configs are what the rows say, and small ones come first."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from training_validation import case_config, cost, n_message

from fit_rows import Case
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
