"""Rows of measurements become cases by their columns, whatever set they are of, or are left out with a reason."""

import tomllib
from pathlib import Path

import pytest
from measured_config import case_config

from fit_rows import Case, read_rows
from models.compute.presets import PRESETS

COLUMNS = (
    "id,set,source,year,model,layers,hidden,ffn,heads,kv_heads,seq,vocab,experts,gpu,gpus,gpus_per_node,"
    "net_Gbps_per_gpu,tp,pp,vpp,dp,cp,ep,mbs,gbs,precision,recompute,seq_par,dist_opt,iter_s,notes"
).split(",")
DENSE = {
    "id": "new-1", "set": "Q", "source": "somebody's Megatron-LM", "year": "2024", "model": "GPT-7B", "layers": "32",
    "hidden": "4096", "ffn": "16384", "heads": "32", "kv_heads": "32", "seq": "2048", "vocab": "51200",
    "gpu": "A100-80G SXM4", "gpus": "32", "gpus_per_node": "8", "net_Gbps_per_gpu": "200", "tp": "4", "pp": "4",
    "vpp": "2", "dp": "2", "mbs": "1", "gbs": "64", "precision": "bf16", "recompute": "none", "seq_par": "yes",
    "dist_opt": "no", "iter_s": "3.5", "notes": "",
}  # fmt: skip
EXPERTS = {
    "model": "Mixtral-8x7B", "ffn": "14336", "kv_heads": "8", "seq": "4096", "vocab": "32000", "experts": "8",
    "gpu": "H100-80G", "tp": "1", "pp": "1", "vpp": "", "dp": "32", "ep": "8",
}  # fmt: skip


def read(path: Path, **values: str) -> tuple[list[Case], list[tuple[str, str]]]:
    row = {**DENSE, **values}
    lines = (",".join(COLUMNS), ",".join(row.get(column, "") for column in COLUMNS))
    (path / "rows.csv").write_text("\n".join(lines) + "\n")
    return read_rows(path / "rows.csv")


def case(path: Path, **values: str) -> Case:
    cases, left_out = read(path, **values)
    assert left_out == []
    return cases[0]


def test_a_row_of_an_unknown_set_is_read_by_its_columns(tmp_path):
    found = case(tmp_path)
    layout = found.layout
    assert (layout.tp, layout.pp, layout.dp, layout.vpp, layout.microbatch, layout.zero) == (4, 4, 2, 2, 1, 0)
    assert layout.sequence_parallel and layout.recompute == "none" and layout.tp_gradient_overlap
    assert (found.device, found.batch, found.measured_s, found.group) == ("a100-80g", 64, 3.5, "new")
    assert not (found.open_microbatch or found.open_vpp or found.open_recompute or found.open_sequence)
    assert not found.open_zero and found.unsaid == ()


@pytest.mark.parametrize("letter", ["", "A", "M", "ZZ", "Z"])
def test_the_letter_of_a_set_says_nothing(letter, tmp_path):
    assert case(tmp_path, set=letter) == case(tmp_path)


def test_blank_columns_are_open_or_listed_with_what_is_usual(tmp_path):
    blank = ("vpp", "mbs", "recompute", "seq_par", "dist_opt", "vocab", "precision", "net_Gbps_per_gpu", "dp")
    found = case(tmp_path, **dict.fromkeys(blank, ""))
    assert found.open_vpp and found.open_microbatch and found.open_sequence and found.open_zero
    assert found.open_recompute == ("none", "selective", "full")
    assert dict(found.unsaid) == {"vocab": "51200", "precision": "bf16", "net_Gbps_per_gpu": "200", "dp": "2"}
    assert found.layout.dp == 2
    assert case(tmp_path, recompute="none/selective").open_recompute == ("none", "selective")
    old = case(tmp_path, year="2021", seq_par="", dist_opt="")
    assert not (old.open_sequence or old.open_zero or old.layout.tp_gradient_overlap)
    assert dict(old.unsaid) == {"seq_par": "no", "dist_opt": "no"}  # neither was there yet
    assert not case(tmp_path, pp="1", dp="8", vpp="").open_vpp


def test_notes_say_the_schedule_and_the_local_batch(tmp_path):
    assert case(tmp_path, vpp="", notes="1F1B").layout.vpp == 1 and not case(tmp_path, vpp="", notes="1F1B").open_vpp
    assert dict(case(tmp_path, vpp="", notes="Interleaved 1F1B").unsaid) == {"vpp": "2"}
    assert case(tmp_path, pp="2", dp="4", vpp="layers (l+2)/p: one layer per chunk").layout.vpp == 17
    found = case(tmp_path, source="pytorch/torchtitan", pp="1", dp="8", mbs="", notes="FSDP; local batch 2; fast")
    assert (found.layout.microbatch, found.layout.zero, found.overlaps_dp) == (2, 3, True)
    assert not found.open_microbatch and not found.layout.cp_balanced


def test_software_says_what_is_overlapped_and_the_gpu_how_attention_is_computed(tmp_path):
    core = case(tmp_path, gpu="H100-80G", notes="NeMo/Megatron-Core")
    assert core.overlaps_dp and core.layout.tp_overlap and core.layout.flash_attention and not core.shape.dropout
    plain = case(tmp_path)
    assert not (plain.overlaps_dp or plain.layout.tp_overlap or plain.layout.flash_attention) and plain.shape.dropout


def test_nemo_sums_gradients_in_bf16_and_keeps_fp8_weights(tmp_path):
    """So its recipes, and with it MLPerf's runs on NVIDIA's GPUs; Megatron-LM by itself sums in fp32."""
    for words in ({"notes": "NeMo/Megatron-Core"}, {"source": "MLPerf Training v4.1"}):
        for precision, weight_bytes in (("bf16", 2), ("fp8", 1)):
            layout = case(tmp_path, gpu="H100-80G", precision=precision, **words).layout
            assert (layout.weight_bytes, layout.gradient_bytes, layout.reduce_bytes) == (weight_bytes, 2, 2)
            assert layout.tp_overlap
    other = case(tmp_path, gpu="H100-80G", notes="Megatron-LM README table (MCore 0.8)", precision="fp8").layout
    assert (other.weight_bytes, other.reduce_bytes) == (2, 4)
    text = case_config(case(tmp_path, gpu="H100-80G", notes="NeMo", precision="fp8"))
    assert tomllib.loads(text)["workload"]["dtypes"] == {"weights": "fp8", "gradients": "bf16"}


def test_a_source_is_who_measured_whatever_the_model(tmp_path):
    ids = ("dgxc-Llama3.1-8B", "dgxc-maxtext-70b", "vtrain_multi_node", "nemo-24.12-a")
    assert [case(tmp_path, id=name).source for name in ids] == ["dgxc", "dgxc", "vtrain", "nemo"]


def test_experts_and_their_parallelism_are_read(tmp_path):
    found = case(tmp_path, **EXPERTS)
    assert found.shape == PRESETS["mixtral-8x7b"]
    assert (found.layout.ep, found.layout.dp) == (8, 32) and dict(found.unsaid) == {"top_k": "2"}
    other = case(tmp_path, **EXPERTS | {"model": "a model", "experts": "16", "ep": ""})
    assert (other.shape.n_expert, other.shape.d_expert, other.layout.ep) == (16, 14336, 1)
    assert dict(other.unsaid) == {"ep": "1", "top_k": "2"}
    sizes = {"model": "DeepSeek-V2", "layers": "4", "hidden": "", "ffn": "", "heads": "", "kv_heads": "", "vocab": "",
             "experts": "160"}  # fmt: skip
    latent = case(tmp_path, **EXPERTS | sizes)
    assert latent.shape.is_latent and (latent.shape.layers, latent.shape.top_k) == (4, 6)


@pytest.mark.parametrize(
    "values, reason",
    [
        ({"gpu": "V100"}, "gpu: found 'V100'. Accepted: a100-40g, "),
        ({"precision": "int4"}, "precision: found 'int4'. Accepted: fp32, bf16, fp16, fp8 or nothing"),
        ({"recompute": "some"}, "recompute: found 'some'. Accepted: none, selective, full"),
        ({"seq_par": "maybe"}, "seq_par: found 'maybe'. Accepted: yes, no or nothing"),
        ({"gbs": ""}, "gbs: found ''. Accepted: a whole number"),
        ({"tp": "four"}, "tp: found 'four'. Accepted: a whole number or nothing"),
        ({"hidden": ""}, "hidden: blank, and the model has no preset"),
        ({"gpus": "64"}, "gpus: found 64, but tp x pp x cp x dp are 32"),
        ({"iter_s": "-"}, "iter_s: found '-'. Accepted: seconds"),
    ],
)
def test_what_cannot_be_read_is_left_out_with_the_reason(values, reason, tmp_path):
    cases, left_out = read(tmp_path, **values)
    assert cases == [] and left_out[0][0] == "new-1" and left_out[0][1].startswith(reason)


def test_a_file_without_rows_has_no_cases(tmp_path):
    (tmp_path / "rows.csv").write_text(",".join(COLUMNS) + "\n")
    assert read_rows(tmp_path / "rows.csv") == ([], [])


@pytest.mark.parametrize("text", ["mla_up_proj+mlpp", "mlp/full", "moe/none", "foo", "none/foo"])
def test_a_recompute_that_is_none_is_no_case(text, tmp_path):
    cases, left_out = read(tmp_path, recompute=text)
    assert cases == [] and f"recompute: found '{text}'" in left_out[0][1]


@pytest.mark.parametrize(
    ("text", "notes", "expected", "is_open"),
    [
        ("layernorm+mlp", "", ("layernorm", "mlp"), False),
        ("none", "JAX FSDP, MaxText", "none", False),
        ("full", "JAX FSDP", ("qkv", "layernorm", "attention", "mlp_up"), False),
        ("", "JAX FSDP, MaxText", ("layernorm", "attention", "mlp_up"), False),
        ("", "JAX FSDP", "none", True),
        ("selective/full", "", "selective", True),
    ],
)
def test_what_is_computed_again_is_read_with_its_software(text, notes, expected, is_open, tmp_path):
    found = case(tmp_path, recompute=text, notes=notes.replace(",", ""))
    assert (found.layout.recompute, bool(found.open_recompute)) == (expected, is_open)
