"""A process that finds its kernels compiled loads neither a compiler's tables nor libraries that it has no use for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pdes.engine.compiling.loading import ASKS
from pdes.engine.jit import JIT_DISABLED

ROOT = Path(__file__).resolve().parents[3]
COMPILED = pytest.mark.skipif(JIT_DISABLED, reason="there is no compiled code")
FOR_COMPILING = ("scipy.linalg", "pandas", "pyarrow.compute", "numba.typed.typeddict")
RUN = """
import sys
from pdes.cli import main
main(["{config}", "--out", "{out}", "--quiet"])
print(*(name for name in {names} if name in sys.modules))
"""
KERNELS = """
import numpy as np
from pdes.engine.jit import kernel

@kernel
def place(values, wanted):
    return np.searchsorted(values, wanted) + values.argmax()

@kernel
def product(a, b):
    return np.dot(a, b)
"""
USE = f"""
import sys
import numpy as np
import kernels

assert kernels.place(np.arange(9), 4) == 12
print("scipy.linalg" in sys.modules, "{ASKS}" in sys.modules, sum(kernels.place.stats.cache_hits.values()))
if len(sys.argv) > 1:
    a = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(kernels.product(a, a.T.copy()), a @ a.T)
    print(sum(kernels.product.stats.cache_hits.values()))
"""


def said(text: str, *arguments: str, **variables: str) -> list[str]:
    command = [sys.executable, "-c", text, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@COMPILED
def test_a_run_loads_nothing_that_it_has_no_use_for(tmp_path: Path) -> None:
    text = RUN.format(config=ROOT / "examples" / "quickstart.toml", out=tmp_path, names=FOR_COMPILING)
    said(text)
    assert said(text) == []


@COMPILED
def test_matrices_are_multiplied_all_the_same(tmp_path: Path) -> None:
    """Compiled, and loaded, in a process that has loaded another kernel before."""
    pytest.importorskip("scipy")
    (tmp_path / "kernels.py").write_text(KERNELS)
    variables = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    said(USE, **variables)
    assert said(USE, **variables) == ["False", "True", "1"]
    assert said(USE, "too", **variables) == ["False", "True", "1", "0"]
    assert said(USE, "too", **variables) == ["False", "True", "1", "1"]
