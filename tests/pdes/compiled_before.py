"""Compile what a run needs, then run; print what compiling has changed, and what was compiled while it ran.

    python compiled_before.py FOLDER CONFIG [SET ...]

A process of its own: kernels that an earlier test has compiled would hide what is missing.
"""

import sys

import numpy as np
from numba.core.dispatcher import Dispatcher

from pdes.config import load_config
from pdes.engine.exchange import World
from pdes.simulation.compile import compile_kernels
from pdes.simulation.job import Run
from pdes.simulation.loop import run_to_end
from pdes.simulation.preparation.prepare import prepare


def signatures() -> set[str]:
    """What is compiled so far, of all our kernels."""
    modules = [module for name, module in sys.modules.items() if name.startswith(("pdes.", "models."))]
    kernels = [value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)]
    return {f"{each.__module__}.{each.__name__}{key}" for each in kernels for key in each.overloads}


def arrays(value: object, name: str) -> dict[str, bytes]:
    """All arrays in tuples within tuples, by path."""
    if isinstance(value, np.ndarray):
        return {name: value.tobytes()}
    found: dict[str, bytes] = {}
    for key, part in value._asdict().items() if isinstance(value, tuple) and hasattr(value, "_asdict") else ():
        found |= arrays(part, f"{name}.{key}")
    return found


def main(folder: str, config: str, *overrides: str) -> None:
    run = Run(prepare(load_config(config, [*overrides, f'output.dir="{folder}"']), quiet=True), World())
    before = arrays(run.model.state, "state")
    compile_kernels(run)
    after = arrays(run.model.state, "state")
    for name in before:
        if before[name] != after[name]:
            print(f"compiling changes {name}")
    known = signatures()
    run_to_end(run, quiet=True)
    for name in sorted(signatures() - known):
        print(f"compiled late: {name}")
    run.folder.abandon()


if __name__ == "__main__":
    main(*sys.argv[1:])
