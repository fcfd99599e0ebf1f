"""Settings of the whole suite, and its three tiers: how much of it `--tier` runs, and with how many drawn examples.

quick    neither what is marked `slow`, nor files that take long, nor tests/mpi; an eighth of the examples
default  all but what is marked `slow`; a third of the examples
all      everything, with all examples, and every run on ranks in processes of its own
"""

from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).parent
SHARE_OF_EXAMPLES = {"quick": 8, "default": 3, "all": 1}  # one of so many
LEAST_EXAMPLES = 5
KEPT_IN = "_hypothesis_internal_use_settings"  # Hypothesis has no other name for a test's own settings
# Files, or folders, that take more than some seconds or start processes; the others are the quick tier.
LONG = (
    "bench/", "models/congestion/test_law_cache.py", "models/network/test_freezing.py",
    "models/network/test_outputs.py", "models/network/test_restoration.py", "models/network/test_room.py",
    "models/network/test_routed_ways.py", "models/network/test_shortages.py", "models/test_phold.py", "pdes/debug/",
    "pdes/engine/test_private_folder.py", "pdes/engine/test_turns.py", "pdes/results/report/",
    "pdes/results/test_active.py", "pdes/results/test_spool.py", "pdes/skipping/test_memo_entries.py",
    "pdes/skipping/test_memo_file.py", "pdes/skipping/test_waves.py", "pdes/test_beginning.py", "pdes/test_checkpoint",
    "pdes/test_cli.py", "pdes/test_compiled_before.py", "pdes/test_memory.py", "pdes/test_order_of_collectives.py",
    "pdes/test_output_of_runs.py", "pdes/test_sampled_profile.py", "pdes/test_skipping_runs.py", "properties/",
    "scripts/", "test_docs.py", "test_examples.py", "test_gallery.py", "test_packaging.py", "test_tiers.py",
)  # fmt: skip
LEFT_OUT = {"quick": ("slow", "long", "ranks"), "default": ("slow",), "all": ()}  # marks

# No deadline: a first call may compile a kernel. Derandomised: the same cases on every machine and rank.
for name, share in SHARE_OF_EXAMPLES.items():
    settings.register_profile(name, deadline=None, derandomize=True, max_examples=max(LEAST_EXAMPLES, 100 // share))


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "how much is run (default: %(default)s), see tests/conftest.py"
    parser.addoption("--tier", choices=list(LEFT_OUT), default="default", help=text)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile(str(config.getoption("tier")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier = str(config.getoption("tier"))
    for item in items:
        name = item.path.relative_to(HERE).as_posix()
        if name.startswith("mpi/"):
            item.add_marker("ranks")
        if name.startswith(LONG):
            item.add_marker("long")
    for test in {id(test): test for item in items if (test := getattr(item, "obj", None))}.values():
        draw_fewer(test, SHARE_OF_EXAMPLES[tier])
    kept, left_out = [], []
    for item in items:
        (left_out if any(map(item.get_closest_marker, LEFT_OUT[tier])) else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def draw_fewer(test: object, share: int) -> None:
    """Leave a test that says how many examples it draws one of so many. Those that do not have the profile's number.

    tests/test_tiers.py fails if Hypothesis keeps them elsewhere.
    """
    own = getattr(test, KEPT_IN, None)
    if own is None or share == 1 or settings.default in (None, own):
        return
    wanted = min(own.max_examples, max(LEAST_EXAMPLES, own.max_examples // share))
    setattr(test, KEPT_IN, settings(own, max_examples=wanted))
