#!/bin/sh
# A run that is longer than a job may be:  sbatch scripts/slurm/requeue.sh config.toml RESULTS
# It takes checkpoints, stops before its time is up, goes back into the queue and resumes, until there is a result; also
# when a machine fails. All output goes to one file.
#SBATCH --job-name=pdes-sim
#SBATCH --nodes=1
#SBATCH --ntasks=16
#SBATCH --cpus-per-task=1
#SBATCH --hint=nomultithread
#SBATCH --mem=0
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append
set -u
config=${1:?usage: sbatch $0 config.toml RESULTS}
out=${2:?usage: sbatch $0 config.toml RESULTS}
stopped=75 # exit status of a run that a signal has stopped, with a checkpoint to go on from

if [ -e "$out/result.json" ]; then
    echo "$0: $out has its results" >&2
    exit 0
fi
if ls -d "$out"/checkpoint/checkpoint-* > /dev/null 2>&1; then
    set -- --resume "$out/checkpoint" --out "$out"
else
    set -- "$config" --out "$out" --set checkpoint.every=10min
fi
srun --kill-on-bad-exit=1 --cpu-bind=cores pdes-sim "$@"
status=$?
if [ "$status" -eq "$stopped" ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
