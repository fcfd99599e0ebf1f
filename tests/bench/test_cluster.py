"""The bench of the cluster level prints what it measures."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow  # each oracle by itself: tests/models/cluster/test_queues.py
def test_a_quick_run_prints_every_case() -> None:
    cases = "speed,jobs,daly,renewal,meta,llama"
    command = [sys.executable, str(ROOT / "bench" / "cluster.py"), "--quick", "--case", cases]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for text in ("backfill", "us a job", "Daly", "MTTF", "131,072 GPUs", "Llama 3, 54 days, 1 seeds"):
        assert text in said


@pytest.mark.slow
def test_all_of_llamas_seeds_and_restarts_are_printed() -> None:
    command = [sys.executable, str(ROOT / "bench" / "cluster.py"), "--case", "llama"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Llama 3, 54 days, 10 seeds" in said and said.count("with restarts of") == 4


@pytest.mark.slow
def test_a_quick_run_of_policies_prints_every_case() -> None:
    command = [sys.executable, str(ROOT / "bench" / "cluster_policies.py"), "--quick"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for text in ("later than Sia", "sia, ms", "M/M/2 at load 1"):
        assert text in said


@pytest.mark.slow
def test_the_studies_print_their_tables() -> None:
    command = [sys.executable, str(ROOT / "bench" / "cluster_studies.py"), "--quick", "--study", "sizing"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "500 / starts per h" in said
