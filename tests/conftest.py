"""Settings of the whole suite, and its three tiers: how much of it `--tier` runs, and with how many drawn examples.

quick    neither what is marked `slow` or `long` nor the files that take long; an eighth of the examples
default  all but what is marked `slow`; an eighth of the examples
all      everything, with all examples, and every run on ranks in processes of its own
"""

import gc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from pdes.engine.compiling.garbage import collect_seldom

HERE = Path(__file__).parent
SHARE_OF_EXAMPLES = {"quick": 8, "default": 8, "all": 1}  # one of so many
LEAST_EXAMPLES = 5
KEPT_IN = "_hypothesis_internal_use_settings"  # Hypothesis has no other name for a test's own settings
# Files, or folders, that take more than some seconds or start processes; the quick tier does not even read them.
LONG = (
    "bench/", "importers/test_round_trip.py", "importers/test_running.py", "models/congestion/test_law_cache.py",
    "models/congestion/test_windows.py", "models/network/test_fast_forward.py", "models/network/test_freezing.py",
    "models/network/test_ns3_mode.py", "models/network/test_outputs.py", "models/network/test_restoration.py",
    "models/network/test_room.py", "models/network/test_routed_ways.py", "models/network/test_saved_state.py",
    "models/network/test_shortages.py", "models/network/test_twin_routing.py",
    "models/workload/compiler/test_build.py", "models/workload/compiler/test_dual_pipe.py",
    "models/workload/compiler/test_tuning.py", "models/workload/traffic/test_flows.py", "mpi/", "pdes/debug/",
    "pdes/devices/", "pdes/engine/test_private_folder.py", "pdes/engine/test_runs.py", "pdes/engine/test_turns.py",
    "pdes/results/report/", "pdes/results/test_active.py", "pdes/results/test_damaged_folders.py",
    "pdes/results/test_spool.py", "pdes/skipping/", "pdes/test_beginning.py", "pdes/test_checkpoint",
    "pdes/test_cli.py", "pdes/test_compiled_before.py", "pdes/test_extreme_inputs.py", "pdes/test_flow_level_runs.py",
    "pdes/test_iteration_fast_forward.py", "pdes/test_memory.py", "pdes/test_order_of_collectives.py",
    "pdes/test_output_of_runs.py", "pdes/test_placing.py", "pdes/test_replica_microbatches.py",
    "pdes/test_repeated_passes.py", "pdes/test_sampled_profile.py", "pdes/test_skipping_runs.py",
    "pdes/test_stage_layers.py", "properties/", "reference/", "scripts/", "test_docs.py", "test_examples.py",
    "test_gallery.py", "test_packaging.py", "test_tiers.py",
)  # fmt: skip
# The default tier runs what is quick here with checked bounds, and only so (`--checked`): but for what skips packets,
# which takes minutes to compile and goes in small as plain Python, and for what has no kernel of ours.
CHECKED = ("models/network/", "models/congestion/", "models/test_phold.py", "pdes/engine/")
NOT_CHECKED = (
    "models/network/streams/test_iterations.py", "models/network/test_ideal.py", "models/network/test_round_looks.py",
    "models/network/test_small_looks.py", "models/network/test_visits.py", "pdes/engine/test_loading.py",
    "pdes/engine/test_remembered.py", "pdes/engine/test_straight.py",
)  # fmt: skip
LEFT_OUT = {"quick": ("slow", "long"), "default": ("slow",), "all": ()}  # marks

# No deadline: a first call may compile a kernel. Derandomised: the same cases on every machine and rank.
for name, share in SHARE_OF_EXAMPLES.items():
    settings.register_profile(name, deadline=None, derandomize=True, max_examples=max(LEAST_EXAMPLES, 100 // share))


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "how much is run (default: %(default)s), see tests/conftest.py"
    parser.addoption("--tier", choices=list(LEFT_OUT), default="default", help=text)
    text = "of what the quick tier has of kernels: nothing else, or all else; the first is run with checked bounds"
    parser.addoption("--checked", choices=["only", "without"], help=text)
    # Said as --share=FOLDER: pytest takes an existing folder that stands alone for one with tests.
    text = "with other processes that are given the same empty folder: each file is run by the first that comes to it"
    parser.addoption("--share", type=Path, metavar="FOLDER", help=text)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile(str(config.getoption("tier")))
    if (folder := config.getoption("share")) is not None:
        config.pluginmanager.register(Shared(folder), "shared")


@pytest.fixture(scope="session")
def share(pytestconfig: pytest.Config) -> Callable[[int], int]:
    """share(n): of n cases that a test draws without Hypothesis, as many as the tier has of examples."""
    n_th = SHARE_OF_EXAMPLES[str(pytestconfig.getoption("tier"))]
    return lambda n: min(n, max(LEAST_EXAMPLES, n // n_th))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.getoption("tier") == "quick" and collection_path.is_relative_to(HERE):
        name = collection_path.relative_to(HERE).as_posix() + "/" * collection_path.is_dir()
        return name.startswith(LONG) or None
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier, checked = str(config.getoption("tier")), config.getoption("checked")
    for item in items:
        if item.path.parent == HERE / "mpi":
            item.add_marker("ranks")
    for test in {id(test): test for item in items if (test := getattr(item, "obj", None))}.values():
        draw_fewer(test, SHARE_OF_EXAMPLES[tier])
    kept, left_out = [], []
    for item in items:
        is_left_out = any(map(item.get_closest_marker, LEFT_OUT[tier]))
        is_left_out |= checked is not None and is_checked(item) != (checked == "only")
        (left_out if is_left_out else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def is_checked(item: pytest.Item) -> bool:
    """Whether scripts/test runs it with checked bounds when it does not run everything."""
    name = item.path.relative_to(HERE).as_posix()
    is_quick = not name.startswith(LONG) and not any(map(item.get_closest_marker, (*LEFT_OUT["quick"], "mpi")))
    return is_quick and name.startswith(CHECKED) and not name.startswith(NOT_CHECKED)


def pytest_collection_finish() -> None:
    """Thousands of tests, and what a compiler builds, live long: they are not searched for garbage again and again."""
    gc.freeze()
    collect_seldom()


class Shared:
    """Leaves out the files that another process has taken."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_mine: dict[Path, bool] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """pytest's own loop but for what is left out; each test's fixtures are kept for the next that does run."""
        if session.testsfailed or session.config.option.collectonly:
            return None
        mine = (item for item in session.items if self._takes(item.path))
        item = next(mine, None)
        while item is not None:
            following = next(mine, None)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
            item = following
        return True

    def _takes(self, path: Path) -> bool:
        if path not in self._is_mine:
            name = path.relative_to(HERE).as_posix().replace("/", "+")
            try:
                (self._folder / name).touch(exist_ok=False)
                self._is_mine[path] = True
            except FileExistsError:
                self._is_mine[path] = False
        return self._is_mine[path]


def draw_fewer(test: object, share: int) -> None:
    """Leave a test that says how many examples it draws one of so many. Those that do not have the profile's number.

    tests/test_tiers.py fails if Hypothesis keeps them elsewhere.
    """
    own = getattr(test, KEPT_IN, None)
    if own is None or share == 1 or settings.default in (None, own):
        return
    wanted = min(own.max_examples, max(LEAST_EXAMPLES, own.max_examples // share))
    setattr(test, KEPT_IN, settings(own, max_examples=wanted))
