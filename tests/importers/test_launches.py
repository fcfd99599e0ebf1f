"""Claims about launch scripts and NeMo's YAML: the job is the one written by hand; what cannot be is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from models.compute.presets import PRESETS
from pdes.cli import main
from pdes.config import load_config
from pdes.scenario.training import model_shape

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/convert/gpt3-175b.sh"

GPT3 = r"""#!/bin/bash
# a GPT-3 with 175 billion parameters
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS=8
NODES=${NODES:-16}
WORLD_SIZE=$(($GPUS * NODES))
OUT=$1   # a folder
LAUNCH=(
    --master_addr "$HOST" --master_port 6000
    --nproc_per_node $GPUS
    --nnodes 1:$NODES      # servers
)
SIZES=(--num-layers 96 --hidden-size 12288
    --num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048)
BATCH="--micro-batch-size 1 --global-batch-size 1536 \
    --lr 6.0e-5 --lr-decay-style cosine --fp16 --weight-decay 0.1 --adam-beta2 0.95"
SPLIT+=(--tensor-model-parallel-size ${GPUS} --pipeline-model-parallel-size=16)
mkdir -p "$OUT" && torchrun ${LAUNCH[@]} pretrain_gpt.py \
    "${SIZES[@]}" \
    $BATCH ${SPLIT[@]} --save $OUT --tokenizer-type GPT2BPETokenizer --data-path $2 > "$OUT/log" 2>&1
"""
LLAMA3 = r"""#SBATCH --nodes=16   # of eight
#SBATCH --gres=gpu:h100:8
TP=8; PP=4; CP=2
MODEL=" --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 \
  --group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm --disable-bias-linear
  --position-embedding-type rope --untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0.0
  --seq-length 8192 --vocab-size 128256 --make-vocab-size-divisible-by 16032"
SPLIT="--tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP --context-parallel-size ${CP}
  --num-layers-per-virtual-pipeline-stage 5 --sequence-parallel --use-distributed-optimizer
  --overlap-grad-reduce --overlap-param-gather --tp-comm-overlap --recompute-activations"
if [ -n "$WITH_FP8" ]; then
  EXTRA="--fp8-format hybrid --fp8-param-gather"
fi
srun -l sh -c "python -u pretrain_gpt.py $MODEL $SPLIT --bf16 $EXTRA --micro-batch-size 1 --global-batch-size 128"
"""
MIXTRAL = """--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
--group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm --disable-bias-linear
--use-rotary-position-embeddings --untie-embeddings-and-output-weights --attention-dropout 0.0 --hidden-dropout 0.0
--seq-length 4096 --tokenizer-type Llama2Tokenizer --make-vocab-size-divisible-by 1
--num-experts 8 --moe-router-topk 2 --moe-token-dispatcher-type alltoall --moe-aux-loss-coeff 1e-2
--expert-model-parallel-size 8 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 8
--micro-batch-size 1 --global-batch-size 256 --bf16 --use-distributed-optimizer --world-size 64
"""
NEMO = """
trainer: {half: "${divide_floor:16, 2}", num_nodes: 16, devices: 8, accelerator: gpu, precision: bf16, max_steps: 10}
exp_manager: {explicit_log_dir: null}
model:
  mcore_gpt: true
  transformer_engine: true
  headscale: false
  seq_len_interpolation_factor: null
  micro_batch_size: 1
  global_batch_size: ${multiply:${.micro_batch_size}, 128}
  tensor_model_parallel_size: ${trainer.half}
  pipeline_model_parallel_size: 4
  virtual_pipeline_model_parallel_size: 4
  context_parallel_size: 2
  encoder_seq_length: 8192
  max_position_embeddings: ${model.encoder_seq_length}
  num_layers: 80
  hidden_size: 8192
  ffn_hidden_size: 28672
  num_attention_heads: 64
  num_query_groups: 8
  activation: fast-swiglu
  normalization: rmsnorm
  bias: false
  hidden_dropout: 0.0
  attention_dropout: 0.0
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  make_vocab_size_divisible_by: 16032
  override_vocab_size: 128256
  sequence_parallel: true
  activations_checkpoint_granularity: selective
  ub_tp_comm_overlap: true
  optim: {name: distributed_fused_adam, lr: 1e-4, overlap_grad_sync: true, overlap_param_sync: true, sched: {a: b}}
  data: {data_prefix: [1.0, x], seq_length: 8192}
"""
BRIDGE = """
model:
  _target_: a.Provider
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 14336
  num_attention_heads: 32
  num_query_groups: 8
  gated_linear_unit: true
  normalization: RMSNorm
  add_bias_linear: false
  attention_dropout: 0.0
  hidden_dropout: 0.0
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  seq_length: 4096
  vocab_size: 32000
  make_vocab_size_divisible_by: 1
  num_moe_experts: 8
  moe_router_topk: 2
  expert_model_parallel_size: 8
  pipeline_model_parallel_size: 4
  virtual_pipeline_model_parallel_size: 8
train: {micro_batch_size: 1, global_batch_size: 256, train_iters: 100}
ddp: {use_distributed_optimizer: true, overlap_grad_reduce: false}
mixed_precision: bf16_mixed
logger: {log_interval: 1}
"""
MEGATRON_YAML = """
language_model:
  {num_layers: 96, hidden_size: 12288, num_attention_heads: 96, num_query_groups: null, activation_func: gelu}
model_parallel: {tensor_model_parallel_size: 8, pipeline_model_parallel_size: 16, sequence_parallel: false, fp16: true}
micro_batch_size: 1
global_batch_size: 1536
seq_length: 2048
tokenizer_type: GPT2BPETokenizer
overlap_grad_reduce: false
lr: 6.0e-5
"""


def converted(tmp_path: Path, form: str, text: str, *more: str, name: str = "") -> Path:
    """The config of a job's text."""
    source, output = tmp_path / (name or ("job.sh" if form == "megatron" else "job.yaml")), tmp_path / "job.toml"
    source.write_text(text)
    assert main(["convert", form, str(source), "-o", str(output), *more]) == 0
    return output


def by_hand(tmp_path: Path, preset: str, n_gpu: int, workload: str) -> Path:
    path = tmp_path / "hand.toml"
    path.write_text(
        f'[topology]\nkind = "roft"\ngpus = {n_gpu}\n[workload]\nkind = "training"\npreset = "{preset}"\n{workload}'
        '[workload.compute]\ngpu = "h100"\n'
    )
    return path


def same_jobs(found: Path, expected: Path, vocabulary: int) -> None:
    """Parameters, layout and microbatches; all else of [workload] that is not the model's sizes."""
    one, other = load_config(found), load_config(expected)
    a, b = one.workload, other.workload
    assert model_shape(a) == replace(model_shape(b), vocabulary=vocabulary, router=True)
    assert (a.parallel, a.n_microbatch) == (b.parallel, b.n_microbatch)
    assert one.topology.n_host == other.topology.n_host == a.parallel.n_gpu
    ignored = {"preset", "model", "sequence", "layers"}
    assert a.model_dump(exclude=ignored) == b.model_dump(exclude=ignored)


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


def test_instances_of_the_optimizer_split_its_states_over_fewer_gpus(tmp_path: Path) -> None:
    text = LLAMA3.replace("--overlap-param-gather", "--overlap-param-gather --num-distributed-optimizer-instances 2")
    parallel = load_config(converted(tmp_path, "megatron", text, "--variable", "EXTRA=")).workload.parallel
    assert (parallel.dp * parallel.cp, parallel.shard) == (4, 2)


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
        ("--bf16", "--bf16 --moe-layer-freq 2", "dense layers first"),
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
