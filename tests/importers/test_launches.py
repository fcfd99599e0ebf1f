"""Claims about launch scripts and NeMo's YAML: the job is the one written by hand; what cannot be is refused."""

from pathlib import Path

import pytest

from models.compute.presets import PRESETS
from pdes.cli import main
from pdes.config import load_config
from pdes.scenario.training import model_shape

from .launch_samples import BRIDGE, EXAMPLE, GPT3, LLAMA3, MEGATRON_YAML, MIXTRAL, NEMO, by_hand, converted, same_jobs

OF_GPT3 = (
    'global_batch = 1536\nprecision = "fp16"\noverlap_gradients = false\noverlap_parameters = false\n'
    "[workload.parallel]\ntp = 8\ndp = 1\npp = 16\n"
)
OF_LLAMA3 = (
    'global_batch = 128\nsequence_parallel = true\noverlap_tensor = true\nrecompute = ["core_attn"]\nzero = 1\n'
    'gradients = "fp32"\n[workload.parallel]\ntp = 8\ncp = 2\ndp = 2\npp = 4\nvpp = 4\n'
)
UNALIGNED = OF_LLAMA3.replace("zero = 1", "zero = 1\nalign_parameters = false")  # as Megatron-LM has it by default
OF_MIXTRAL = (
    "global_batch = 256\noverlap_gradients = false\noverlap_parameters = false\nzero = 1\n"
    'gradients = "fp32"\n[workload.parallel]\ntp = 1\ndp = 16\npp = 4\nvpp = 8\nep = 8\n'
)


@pytest.mark.parametrize(
    ("form", "text", "name", "more", "preset", "vocabulary", "hand", "n_gpu"),
    [
        ("megatron", GPT3, "", (), "gpt3-175b", 51200, OF_GPT3, 128),
        ("megatron", MEGATRON_YAML, "job.yaml", ("--gpus", "128"), "gpt3-175b", 51200, OF_GPT3, 128),
        ("megatron", MIXTRAL, "args.txt", (), "mixtral-8x7b", 32000, OF_MIXTRAL, 64),
        ("nemo", NEMO, "", (), "llama3-70b", 128256, OF_LLAMA3, 128),
        ("nemo", BRIDGE, "", ("--gpus", "64"), "mixtral-8x7b", 32000, OF_MIXTRAL, 64),
    ],
)
def test_a_converted_job_is_the_one_written_by_hand(
    form: str, text: str, name: str, more: tuple, preset: str, vocabulary: int, hand: str, n_gpu: int, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    same_jobs(converted(tmp_path, form, text, *more, name=name), by_hand(tmp_path, preset, n_gpu, hand), vocabulary)
    assert capsys.readouterr().err == ""


def test_branches_and_variables_of_the_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hand = by_hand(tmp_path, "llama3-70b", 128, UNALIGNED)
    fp8 = hand.with_name("fp8.toml")
    fp8.write_text(hand.read_text().replace("zero = 1", 'zero = 1\nprecision = "fp8"\ndtypes = {weights = "fp8"}'))
    same_jobs(converted(tmp_path, "megatron", LLAMA3), fp8, 128256)
    same_jobs(converted(tmp_path, "megatron", LLAMA3, "--variable", "EXTRA="), hand, 128256)
    assert capsys.readouterr().err == ""
    converted(tmp_path, "megatron", LLAMA3.replace("if [", "EXTRA=''\nif ["))
    assert "EXTRA is assigned in a branch" in capsys.readouterr().err


def test_published_sizes(tmp_path: Path) -> None:
    """GPT-3 175B (its table of positions and Megatron-LM's padding included), LLaMA 3 70B, Mixtral 8x7B."""
    for text, billions in ((GPT3, 174.6), (LLAMA3, 70.55), (MIXTRAL, 46.70)):
        shape = model_shape(load_config(converted(tmp_path, "megatron", text)).workload)
        assert shape.parameters() / 1e9 == pytest.approx(billions, rel=0.001)


def test_query_groups_hold_with_their_flag_alone(tmp_path: Path) -> None:
    def kv_heads(text: str) -> int:
        return model_shape(load_config(converted(tmp_path, "megatron", text)).workload).n_kv

    assert kv_heads(MIXTRAL) == 8
    assert kv_heads(MIXTRAL.replace("--group-query-attention", "")) == 32


def test_stages_begin_exchanges_together_if_they_are_told_to(tmp_path: Path) -> None:
    def aligned(more: str) -> tuple[bool, bool]:
        text = LLAMA3.replace("--overlap-param-gather", f"--overlap-param-gather {more}")
        workload = load_config(converted(tmp_path, "megatron", text, "--variable", "EXTRA=")).workload
        return workload.align_gradients, workload.align_parameters

    assert aligned("") == (True, False)
    assert aligned("--align-param-gather") == (True, True)
    assert aligned("--align-param-gather --no-align-grad-reduce") == (False, True)
    yaml = NEMO.replace("  ub_tp_comm_overlap: true", "  ub_tp_comm_overlap: true\n  align_grad_reduce: false")
    workload = load_config(converted(tmp_path, "nemo", yaml)).workload
    assert (workload.align_gradients, workload.align_parameters) == (False, True)


def test_interleaved_stages_wait_for_messages_if_they_are_told_to(tmp_path: Path) -> None:
    def posts(more: str) -> bool:
        text = LLAMA3.replace("--overlap-param-gather", f"--overlap-param-gather {more}")
        return load_config(converted(tmp_path, "megatron", text, "--variable", "EXTRA=")).workload.overlap_pipeline

    assert (posts(""), posts("--no-overlap-p2p-communication")) == (True, False)
    yaml = NEMO.replace("  ub_tp_comm_overlap: true", "  ub_tp_comm_overlap: true\n  overlap_p2p_comm: false")
    assert not load_config(converted(tmp_path, "nemo", yaml)).workload.overlap_pipeline


def test_instances_of_the_optimizer_split_its_states_over_fewer_gpus(tmp_path: Path) -> None:
    text = LLAMA3.replace("--overlap-param-gather", "--overlap-param-gather --num-distributed-optimizer-instances 2")
    parallel = load_config(converted(tmp_path, "megatron", text, "--variable", "EXTRA=")).workload.parallel
    assert (parallel.dp * parallel.cp, parallel.shard) == (4, 2)


def test_experts_share_the_gpus_of_tensor_parallelism_unless_it_is_said(tmp_path: Path) -> None:
    """As Megatron-Core's ModelParallelConfig has it."""

    def parallel(more: str) -> tuple[int, int, int]:
        text = MIXTRAL.replace("--bf16", f"--bf16 --tensor-model-parallel-size 2 {more}")
        found = load_config(converted(tmp_path, "megatron", text, name="args.txt")).workload.parallel
        return found.tp, found.ep, found.etp

    text = MIXTRAL.replace("--expert-model-parallel-size 8", "--expert-model-parallel-size 4")
    assert "etp" not in converted(tmp_path, "megatron", text, name="args.txt").read_text()
    assert parallel("--sequence-parallel") == (2, 8, 2)
    assert parallel("--sequence-parallel --expert-tensor-parallel-size 1") == (2, 8, 1)


@pytest.mark.parametrize(
    ("freq", "dense", "every"), [("2", 0, 2), ("([0,1]*16)", 1, 2), ("([0]*2+[1]*30)", 2, 1), ("([0]*31+[1])", 31, 1)]
)
def test_layers_with_experts_in_turns(freq: str, dense: int, every: int, tmp_path: Path) -> None:
    text = MIXTRAL.replace("--bf16", f"--bf16 --moe-layer-freq {freq}")
    shape = model_shape(load_config(converted(tmp_path, "megatron", text, name="args.txt")).workload)
    kinds = ["moe" if i >= dense and (i - dense) % every == 0 else "dense" for i in range(32)]
    assert [shape.layer_kind(i) for i in range(32)] == kinds


@pytest.mark.parametrize("given", ["moe_act layernorm", "moe_act,layernorm", "[moe_act, layernorm]"])
def test_modules_that_are_recomputed(given: str, tmp_path: Path) -> None:
    text = MIXTRAL.replace("--bf16", f"--bf16 --recompute-granularity selective --recompute-modules {given}")
    workload = load_config(converted(tmp_path, "megatron", text, name="args.txt")).workload
    assert workload.recompute == ("moe_act", "layernorm")


def test_modules_that_no_layer_has_change_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = "--bf16 --recompute-granularity selective --recompute-modules core_attn mlp shared_experts"
    workload = load_config(converted(tmp_path, "megatron", MIXTRAL.replace("--bf16", more), name="args.txt")).workload
    assert workload.recompute == ("core_attn",)
    assert "no layer has mlp, shared_experts: left out" in capsys.readouterr().err
    more = more.replace("core_attn mlp", "mlp")
    workload = load_config(converted(tmp_path, "megatron", MIXTRAL.replace("--bf16", more), name="args.txt")).workload
    assert workload.recompute == "none"


def test_latent_attention_is_a_presets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "--num-layers 61 --hidden-size 7168 --num-attention-heads 128 --ffn-hidden-size 18432 --seq-length 4096 "
        "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 "
        "--v-head-dim 128 --num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048 --swiglu --qk-layernorm "
        "--moe-shared-expert-intermediate-size 2048 --moe-layer-freq ([0]*3+[1]*58) --vocab-size 129280 --bf16 "
        "--expert-model-parallel-size 8 --world-size 64 --global-batch-size 64 --kv-channels 128"
    ).replace("([0]*3+[1]*58)", "'([0]*3+[1]*58)'")
    shape = model_shape(load_config(converted(tmp_path, "megatron", text)).workload)
    assert shape == PRESETS["deepseek-v3"]
    other = text.replace("--q-lora-rank 1536", "--q-lora-rank 1024")
    assert "sizes of DeepSeek-V2 or DeepSeek-V3" in refused(tmp_path, "megatron", other, capsys)


def test_all_keys_that_are_not_taken_are_in_one_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    converted(
        tmp_path, "megatron", MIXTRAL + " --rampup-batch-size 16 16 1000 --use-sharp --lr 1 --turbo --log-interval 1"
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("not taken, though some may change the time: --rampup-batch-size, --use-sharp, --turbo")
    converted(tmp_path, "nemo", NEMO.replace("  mcore_gpt: true", "  mcore_gpt: true\n  turbo: 3"))
    assert capsys.readouterr().err.splitlines()[0].endswith("change the time: model.turbo")


def refused(tmp_path: Path, form: str, text: str, capsys: pytest.CaptureFixture[str], name: str = "") -> str:
    source = tmp_path / (name or ("bad.sh" if form == "megatron" else "bad.yaml"))
    source.write_text(text)
    assert main(["convert", form, str(source), "-o", str(tmp_path / "bad.toml")]) == 2
    said = capsys.readouterr().err
    assert said.count("pdes-sim: error") == 1 and "Traceback" not in said and len(said) < 2000
    assert str(source) in said and not (tmp_path / "bad.toml").exists()
    return said


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("--world-size 64", "--world-size 48", "line 6: --expert-model-parallel-size 8. Accepted: a divisor of tensor"),
        ("--world-size 64", "--world-size 30", "do not divide the job's 30 GPUs"),
        ("--world-size 64", "", "no GPUs"),
        ("--global-batch-size 256", "--global-batch-size 250", "line 7: --global-batch-size 250"),
        ("--num-layers 32", "--num-layers 33", "line 6: --pipeline-model-parallel-size 4. Accepted: 33 layers in"),
        ("--num-layers 32", "--num-layers many", "line 1: --num-layers many. Accepted: a whole number"),
        (
            "--num-layers 32",
            "--num-layers $N",
            "which the file does not say. Accepted: a value, such as with --variable",
        ),
        ("--num-layers 32", "--num-layers -1", "line 1: --num-layers -1"),
        ("--num-layers 32", f"--num-layers {'9' * 5000}", "line 1: --num-layers 999"),
        ("--hidden-size 4096", "", "no hidden_size"),
        ("--num-attention-heads 32", "--num-attention-heads 33", "a divisor of the hidden size"),
        ("--num-query-groups 8", "--num-query-groups 7", "a divisor of 32, the heads"),
        ("--num-experts 8", "--num-experts 12", "a divisor of the experts, 12"),
        ("--moe-router-topk 2", "--moe-router-topk 20", "at most the experts, 8"),
        ("--bf16", "--bf16 --fp16", "beside bf16"),
        ("--normalization RMSNorm", "--normalization BatchNorm", "LayerNorm, RMSNorm"),
        ("--bf16", "--bf16 --recompute-granularity some", "selective, full"),
        ("--bf16", "--bf16 --recompute-granularity selective --recompute-modules moe_gate", "core_attn, layernorm"),
        ("--num-virtual", "--num-layers-per-virtual-pipeline-stage 3 --num-virtual", "beside num_virtual_stages"),
        ("--bf16", "--bf16 --decoder-first-pipeline-num-layers 3", "without interleaving"),
        ("--bf16", "--bf16 --moe-layer-freq 0", "a whole number from 1"),
        ("--bf16", "--bf16 --moe-layer-freq '([1,0,1,1]*8)'", "in one of every so many"),
        ("--bf16", "--bf16 --moe-layer-freq '([0]*32)'", "some of them with experts"),
        ("--bf16", "--bf16 --expert-tensor-parallel-size 3", "whose product divides"),
        ("--bf16", "--bf16 --exp-avg-dtype fp8", "the same format for both moments"),
        ("--bf16", "--bf16 '", "no second '"),
        ("--bf16", '--bf16 "', 'no second "'),
        ("--bf16", "--bf16 ${X", "no }"),
        ("--num-layers", "--n-layers", "no command with --num-layers"),
    ],
)
def test_jobs_that_cannot_be_are_refused(
    before: str, after: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MIXTRAL.replace(before, after)
    if before == "--num-layers":
        text = text.replace("--hidden-size", "--width")
    assert found in refused(tmp_path, "megatron", text.replace("\n", " \\\n"), capsys)


LAUGHS = "a: &a0 {}\n" + "".join(f"b{k}: &a{k + 1} {{x: *a{k}, y: *a{k}}}\n" for k in range(25))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("model: [", "line 1: is no YAML"),
        ("model:\n  a: *b\n", "line 2: is no YAML"),
        ("x: 3", "no model.num_layers"),
        ("", "no model.num_layers"),
        ("a: " + "[" * 5000, "is nested more than"),
        ("a: " + "{b: " * 90 + "1" + "}" * 90, "nested more than 64 levels"),
        (LAUGHS, "more than 100000 keys"),
        ("trainer: {precision: 7}\nmodel: {num_layers: 2}", "line 1: trainer.precision 7"),
        ("trainer: {devices: 2}\nmodel:\n  num_layers: ${.a}\n", "line 3: model.num_layers ${.a}, which"),
    ],
)  # fmt: skip
def test_yaml_that_is_wrong_is_refused(
    text: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found in refused(tmp_path, "nemo", text, capsys)


def test_a_config_that_was_there_stays_where_the_new_one_could_not_be_run(tmp_path: Path) -> None:
    output = tmp_path / "job.toml"
    output.write_text("mine")
    words = ["convert", "megatron", str(EXAMPLE), "-o", str(output)]
    assert main([*words, "--gpu", "h900"]) == 2
    assert output.read_text() == "mine" and [path.name for path in tmp_path.iterdir()] == ["job.toml"]
    assert main([*words, "--gpu", "h100"]) == 0
    assert "h100" in output.read_text() and [path.name for path in tmp_path.iterdir()] == ["job.toml"]
