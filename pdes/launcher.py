"""What the environment says about how this process was started: by which launcher, as which rank, one of how many.

Needs no MPI, so it works before MPI starts and where launcher and MPI library do not know each other.
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

from pdes.errors import SimError

_FIRST_SPECIAL_STEP = 2**32 - 16  # Slurm numbers batch, external and interactive steps from the top of 32 bits


class Launch(NamedTuple):
    """rank, size: as the launcher sees them; (0, 1) without one. launcher: its name for people, "" without one."""

    rank: int
    size: int
    launcher: str


class LauncherError(SimError):
    """Launcher and MPI library do not work together: every process would run the whole simulation."""

    exit_status = 2


def read_launch(environment: Mapping[str, str] = os.environ) -> Launch:
    """How this process was started. The most telling variables come first: Slurm sets PMI variables too."""
    slurm = _slurm(environment)
    known = (
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"),
        ("PMI_RANK", "PMI_SIZE", "Slurm's srun (PMI)" if slurm.size > 1 else "a Hydra mpirun (MPICH or Intel MPI)"),
        ("MPI_LOCALRANKID", "MPI_LOCALNRANKS", "a Hydra mpirun (MPICH or Intel MPI)"),
        ("PALS_RANKID", "PALS_SIZE", "PALS (Cray)"),
    )
    for rank_name, size_name, launcher in known:
        size = _number(environment, size_name)
        if size > 0:
            return Launch(_number(environment, rank_name), size, f"{launcher}, {size_name}={size}")
    return slurm


def _slurm(environment: Mapping[str, str]) -> Launch:
    """A step of srun. In the batch script itself SLURM_NTASKS is set too, but nothing has been started n times."""
    is_step = "SLURM_STEP_ID" in environment and _number(environment, "SLURM_STEP_ID") < _FIRST_SPECIAL_STEP
    name = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environment else "SLURM_NTASKS"
    size = _number(environment, name)
    if not is_step or size < 1:
        return Launch(0, 1, "")
    return Launch(_number(environment, "SLURM_PROCID"), size, f"Slurm's srun, {name}={size}")


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def check_launch(launch: Launch, n_rank: int, library: str) -> None:
    """Raise LauncherError if n processes were started, but MPI sees one. library: the name that MPI gives itself."""
    if launch.size > 1 and n_rank == 1:
        raise LauncherError(
            f"{launch.size} processes were started by {launch.launcher}, but MPI sees one rank. MPI library here: "
            f"{library}. Use the mpirun that belongs to this library (the extra pdes-sim[mpich] brings its own, beside "
            "python), or an mpi4py built for the launcher's library"
        )
