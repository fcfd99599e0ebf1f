#!/bin/sh
# Many small runs, one rank each:  sbatch --array=0-99%20 scripts/slurm/sweep.sh overrides.txt config.toml RESULTS
# Line i of overrides.txt, counted from 0, has what --set gets in run i, such as: topology.gpus=64 simulation.seed=3
# (values without spaces). Run i goes to RESULTS/i; one that is complete is not run again.
#SBATCH --job-name=pdes-sweep
#SBATCH --array=0-9
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=4G
#SBATCH --time=01:00:00
set -eu
usage="usage: sbatch --array=0-N $0 overrides.txt config.toml RESULTS"
lines=${1:?$usage}
config=${2:?$usage}
out=${3:?$usage}/${SLURM_ARRAY_TASK_ID:?$usage}

[ ! -e "$out/result.json" ] || exit 0
line=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" "$lines")
set --
for word in $line; do
    set -- "$@" --set "$word"
done
exec srun --ntasks=1 pdes-sim "$config" --out "$out" --quiet "$@"
