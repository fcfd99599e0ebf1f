"""Importing the package costs nothing that a rank does not need."""

import os
import subprocess
import sys


def test_importing_results_loads_neither_pyarrow_nor_rich_nor_mpi():
    code = "import sys, pdes.results; print([m for m in ('pyarrow', 'rich', 'mpi4py', 'numba') if m in sys.modules])"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], check=True, env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
