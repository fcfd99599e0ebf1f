#!/bin/sh
# One machine, a rank per core:  sbatch scripts/slurm/one-node.sh config.toml RESULTS
#SBATCH --job-name=pdes-sim
#SBATCH --nodes=1
#SBATCH --ntasks=16
#SBATCH --cpus-per-task=1
#SBATCH --hint=nomultithread
#SBATCH --mem=0
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@300
set -eu
config=${1:?usage: sbatch $0 config.toml RESULTS}
out=${2:?usage: sbatch $0 config.toml RESULTS}

# 5 minutes before the time is up every rank gets SIGTERM: a last checkpoint, exit status 75, and a line that says how
# to go on. requeue.sh does that by itself.
exec srun --kill-on-bad-exit=1 --cpu-bind=cores pdes-sim "$config" --out "$out" --set checkpoint.every=10min
