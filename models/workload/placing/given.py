"""Placements that a user lists."""

from collections.abc import Sequence

from pdes.errors import ConfigError


def check_placement(gpu_of_rank: Sequence[int], n_gpu: int) -> None:
    """Raise ConfigError if a given placement is not every GPU once."""
    where, accepted = "[workload] placement", f"every GPU from 0 to {n_gpu - 1} once, in the order of the ranks"
    if len(gpu_of_rank) != n_gpu:
        raise ConfigError(where, f"{len(gpu_of_rank)} GPUs for {n_gpu} ranks", accepted)
    for gpu in range(n_gpu):
        if gpu not in set(gpu_of_rank):
            raise ConfigError(where, f"GPU {gpu} is missing", accepted)
