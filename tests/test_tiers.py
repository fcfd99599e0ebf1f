"""The tiers of the suite: what each of them leaves out, and how many examples it draws."""

from pathlib import Path

import pytest

from conftest import CHECKED, HERE, LONG, NOT_CHECKED

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).with_name("conftest.py")
MARKS = "[pytest]\nmarkers =\n    slow\n    long\n    ranks\n"
DRAWN = {"quick": 12, "default": 12, "all": 96}  # of 96
BY_THE_PROFILE = {"quick": 12, "default": 12, "all": 100}
FEW = {"quick": 5, "default": 5, "all": 6}  # of 6
SUITE = """
import pytest
from hypothesis import given, settings, strategies as st

def test_plain(): pass

@pytest.mark.long
def test_long(): pass

@pytest.mark.slow
def test_slow(): pass

seen = {"own": 0, "profile": 0, "few": 0}

@pytest.mark.parametrize("same", [1, 2])
@settings(max_examples=96)
@given(st.integers())
def test_own(same, n): seen["own"] += 1

@given(st.integers())
def test_profile(n): seen["profile"] += 1

@settings(max_examples=6)
@given(st.integers())
def test_few(n): seen["few"] += 1

def test_counts(request):
    print("drawn", seen["own"], seen["profile"], seen["few"])
"""


@pytest.mark.parametrize("name", [*LONG, *CHECKED, *NOT_CHECKED])
def test_what_is_left_out_of_a_tier_exists(name: str) -> None:
    assert list(HERE.glob(f"{name}*"))


@pytest.mark.parametrize("mark", ["mpi", "ranks"])
def test_what_needs_ranks_is_where_scripts_test_looks_for_it(mark: str) -> None:
    marked = {path.parent.name for path in HERE.rglob("test_*.py") if f"mark.{mark}" in path.read_text()}
    assert marked <= {"mpi"}


@pytest.mark.parametrize("tier", DRAWN)
def test_a_tier_leaves_out_what_its_marks_say_and_draws_its_share(tier: str, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makeini(MARKS)
    pytester.makepyfile(SUITE)
    folder = pytester.mkdir("mpi")
    (folder / "test_ranks.py").write_text("def test_on_ranks(): pass\n")
    done = pytester.runpytest_subprocess("--tier", tier, "-s", "-v", "-p", "no:cacheprovider", "-p", "no:mpi")
    text = done.stdout.str()
    assert done.ret == 0, text
    ran = {line.split("::")[1].split()[0] for line in text.splitlines() if "::" in line}
    assert ("test_long" in ran, "test_slow" in ran) == (tier != "quick", tier == "all")
    assert ("test_on_ranks" in ran) == (tier != "quick")
    assert f"drawn {2 * DRAWN[tier]} {BY_THE_PROFILE[tier]} {FEW[tier]}" in text


def test_what_is_run_with_checked_bounds_is_not_run_without(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makeini(MARKS)
    long = next(name for name in LONG if name.endswith(".py"))
    for name in (CHECKED[0] + "test_port.py", "test_other.py", NOT_CHECKED[0], long):
        path = pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import pytest\n\ndef test_plain(): pass\n\n@pytest.mark.long\ndef test_long(): pass\n")
    found = []
    for more in (["--checked", "only"], ["--checked", "without"], []):
        done = pytester.runpytest_subprocess(*more, "-v", "-p", "no:cacheprovider", "-p", "no:mpi")
        found.append({line.split()[0] for line in done.stdout.str().splitlines() if "::" in line})
    only, without, every = found
    assert only == {CHECKED[0] + "test_port.py::test_plain"}
    assert not only & without and only | without == every and len(every) == 8


def test_processes_that_share_run_every_file_once(pytester: pytest.Pytester, tmp_path: Path) -> None:
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makeini(MARKS)
    for name in ("one/test_a.py", "one/test_b.py", "two/test_c.py"):
        path = pytester.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("def test_one(): pass\n\ndef test_other(): pass\n")
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "one+test_b.py").touch()  # by another process
    arguments = (f"--share={taken}", "-p", "no:cacheprovider", "-p", "no:mpi")
    first = pytester.runpytest_subprocess(*arguments, "-v")
    first.assert_outcomes(passed=4)
    assert "test_b.py::test_one" not in first.stdout.str()
    last = pytester.runpytest_subprocess(*arguments)
    assert last.ret == 0 and "no tests ran" in last.stdout.str()
    assert {path.name for path in taken.iterdir()} == {"one+test_a.py", "one+test_b.py", "two+test_c.py"}
