"""Which kernels are those of one iteration: those that the CPU called for in it, or that began in it."""

from typing import NamedTuple

from pdes.convert.profile.seen import Kernel
from pdes.errors import ConfigError


class Marked(NamedTuple):
    """An iteration as it is marked in a profile."""

    number: int
    begin_ps: int
    end_ps: int


def of_step(kernels: list[Kernel], steps: list[Marked], wanted: int | None, path: str) -> tuple[list[Kernel], int, str]:
    """(kernels of an iteration, when it begins for the GPU, which one, for people). wanted None: the last whole one.

    It begins when the last kernel of the one before has ended, so that what the GPU waits for in between counts;
    without one before, with its first kernel.
    """
    if not steps:
        if wanted is not None:
            raise ConfigError("--step", f"{wanted}, and {path} marks no iterations", "no --step: all of it is taken")
        return kernels, min((k.start_ps for k in kernels), default=0), "everything, as no iterations are marked"
    by_number = {step.number: step for step in sorted(steps)}
    numbers = sorted(by_number) if wanted is None else [n for n in by_number if n == wanted]
    chosen = [by_number[n] for n in numbers]
    for step in reversed(chosen):
        taken = [k for k in kernels if step.begin_ps <= _called_for(k) < step.end_ps]
        if taken:
            first_ps = min(k.start_ps for k in taken)
            before = [k.end_ps for k in kernels if _called_for(k) < step.begin_ps and k.end_ps <= first_ps]
            return taken, max(before, default=first_ps), f"iteration {step.number}"
    listed = ", ".join(str(n) for n in sorted(by_number)[:12])
    found = "no kernels in any marked iteration" if wanted is None else f"no kernels in iteration {wanted}"
    raise ConfigError(path if wanted is None else "--step", found, f"a profile with kernels in iterations {listed}")


def _called_for(kernel: Kernel) -> int:
    return kernel.start_ps if kernel.launch_ps is None else kernel.launch_ps
