"""The engine by ns-3's rules equals the plain twin of ns-3 under the engine's order of simultaneous events, exactly."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from reference.ns3_runs import answers_of, run_engine, run_twin
from reference.ns3_strategies import cases
from reference.ns3_twin import Ns3Case, write_case

CASES = Path(__file__).parents[2] / "reference" / "ns3_cases"
CASE_NAMES = sorted(str(path.parent.relative_to(CASES)) for path in CASES.glob("*/*/fct.txt"))
# Slow: lossy links without PFC, of which j_lossy_nopfc is the smaller case.
SLOW = {"j4_lossy_lowecn/dcqcn"}


def assert_equal(folder: Path, cache: Path) -> None:
    """Every flow's time, every switch's drops, every port's losses, pauses and marks."""
    engine, _ = run_engine(folder)
    twin = run_twin(folder, "engine", cache)
    assert engine.fct_ns == twin.fct_ns
    assert engine.dropped == twin.dropped
    assert engine.lost == twin.lost
    assert engine.pauses == twin.pauses
    assert engine.marked == twin.marked


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CASE_NAMES])
def test_the_engine_is_the_twin_on_ns3s_own_cases(name: str, tmp_path: Path) -> None:
    assert_equal(CASES / name, tmp_path)


@pytest.mark.parametrize("name", ["a1_one_packet/hpcc", "a_single/dctcp", "a_single/timely", "l_nic_rr/dcqcn"])
def test_where_no_tie_decides_the_engine_is_ns3_itself(name: str) -> None:
    assert run_engine(CASES / name)[0].fct_ns == answers_of(CASES / name)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=cases())
def test_the_engine_is_the_twin_on_random_cases(case: Ns3Case, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("case")
    write_case(case, folder)
    assert_equal(folder, folder / "cache")
