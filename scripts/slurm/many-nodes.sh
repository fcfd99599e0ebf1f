#!/bin/sh
# Several machines:  sbatch --nodes=4 scripts/slurm/many-nodes.sh config.toml RESULTS
# RESULTS has to be on a file system that all of them see.
#SBATCH --job-name=pdes-sim
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=32
#SBATCH --cpus-per-task=1
#SBATCH --hint=nomultithread
#SBATCH --mem=0
#SBATCH --time=12:00:00
#SBATCH --signal=TERM@300
set -eu
config=${1:?usage: sbatch $0 config.toml RESULTS}
out=${2:?usage: sbatch $0 config.toml RESULTS}

# Compiled kernels, once for all ranks; not in a home directory that is slow or small. docs/cluster.md says more.
PDES_CACHE_DIR=${PDES_CACHE_DIR:-$PWD/.pdes-cache}
export PDES_CACHE_DIR

exec srun --kill-on-bad-exit=1 --cpu-bind=cores --distribution=block:block \
    pdes-sim "$config" --out "$out" --set checkpoint.every=10min
