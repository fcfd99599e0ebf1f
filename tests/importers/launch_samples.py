"""Launch scripts and YAML of training jobs, and what a test asks of a converted one."""

from dataclasses import replace
from pathlib import Path

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
