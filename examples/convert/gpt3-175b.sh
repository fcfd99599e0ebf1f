#!/bin/bash
# How GPT-3 175B may be started with Megatron-LM:  pdes-sim convert megatron examples/convert/gpt3-175b.sh -o job.toml

GPUS_PER_NODE=8
NODES=${NODES:-32}
TP=8
PP=8

LAUNCH=(--nproc_per_node "$GPUS_PER_NODE" --nnodes "$NODES")
MODEL=(
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
    --tokenizer-type GPT2BPETokenizer
)
LAYOUT=(
    --tensor-model-parallel-size $TP
    --pipeline-model-parallel-size $PP
    --num-layers-per-virtual-pipeline-stage 2
    --sequence-parallel
    --use-distributed-optimizer
    --overlap-grad-reduce --overlap-param-gather
)
TRAINING="--micro-batch-size 1 --global-batch-size 1536 --bf16 --recompute-activations \
    --lr 6.0e-5 --lr-decay-style cosine --train-iters 500000 --clip-grad 1.0"

torchrun ${LAUNCH[@]} pretrain_gpt.py ${MODEL[@]} ${LAYOUT[@]} $TRAINING --data-path "$1"
