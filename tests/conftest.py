"""Settings of the whole suite, and its three tiers: how much of it `--tier` runs, and with how many drawn examples.

quick    neither what is marked `slow` or `long` nor what starts mpirun; an eighth of the examples
default  all but what is marked `slow`; a third of the examples
all      everything, with all examples, and every run on ranks in processes of its own
"""

import pytest
from hypothesis import settings

SHARE_OF_EXAMPLES = {"quick": 8, "default": 3, "all": 1}  # one of so many
LEAST_EXAMPLES = 5
KEPT_IN = "_hypothesis_internal_use_settings"  # Hypothesis has no other name for a test's own settings
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
        if item.path.parent.name == "mpi":
            item.add_marker("ranks")
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
