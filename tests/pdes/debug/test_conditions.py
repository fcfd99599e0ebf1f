"""Claims about the language of --break."""

import pytest

from pdes.debug.conditions import Quantity, holds, parse_condition, quantities_of
from pdes.errors import ConfigError

VALUES = {
    "queue(leaf3:2)": 1_000_001, "flow(12).sent": 4_000_000, "flow(12).rate": 50 * 10**9, "time": 2 * 10**9,
    "paused(a->b)": 0, "flow(1).finished": 1, "flows": 3, "tx(17)": 0,
}  # fmt: skip


def values_of(text: str) -> dict[Quantity, int]:
    return {quantity: VALUES[str(quantity)] for quantity in quantities_of(parse_condition(text))}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("queue(leaf3:2) > 1MB", True),
        ("queue( leaf3:2 )>1000001B", False),
        ("queue(leaf3:2) >= 1000001 B", True),
        ("1MB < queue(leaf3:2)", True),
        ("flow(12).sent == 4MB and flow(12).rate < 100Gbps", True),
        ("time > 2ms or paused(a->b)", False),
        ("not paused(a->b)", True),
        ("paused(a->b) or flow(1).finished and flows == 3", True),
        ("(paused(a->b) or flow(1).finished) and flows > 3", False),
        ("not (flows == 3 and time == 2ms)", False),
        ("tx(17) == 0 and 0 == tx(17)", True),
        ("flow(12).sent > queue(leaf3:2)", True),
        ("flows != 2 and flows <= 3", True),
    ],
)
def test_a_condition_means_what_it_says(text: str, expected: bool) -> None:
    assert holds(parse_condition(text), values_of(text)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty"),
        ("queue(leaf3:2)", 'found "the end". Accepted: <=, >=, ==, !=, <, > and a value'),
        ("queue(leaf3:2) > ", 'found "the end". Accepted: a quantity, or a number with its unit'),
        ("queue(leaf3:2) > 1MB and", 'found "the end"'),
        ("queue(leaf3:2) > 1MB flows", 'found "flows". Accepted: and, or, or the end'),
        ("queue(leaf3:2) > 1", 'found "1", which has no unit. Accepted: a size'),
        ("queue(leaf3:2) > 1ms", 'which has the unit "ms". Accepted: a size'),
        ("queue(leaf3:2) > time", "queue(leaf3:2) is a size, time is a duration. Accepted: two of a kind"),
        ("queue > 1MB", 'found "queue". Accepted: time, flows, queue(PORT)'),
        ("flow(3).speed > 1Gbps", 'found "flow(3).speed". Accepted: time'),
        ("flows > 1MB", 'found "1MB". Accepted: a number, such as 3'),
        ("(flows > 1", 'found "the end". Accepted: ")"'),
        ("__import__('os').system('ls')", "Accepted:"),
        ("flows > 1; flows", 'found "; flows"'),
    ],
)
def test_a_mistake_is_bad_input_that_says_what_is_accepted(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_condition(text)
    assert expected in str(caught.value) and caught.value.exit_status == 2
