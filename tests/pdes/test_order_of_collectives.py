"""Collectives come in file order, but each behind all that it waits for."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from pdes.scenario.inputs import _after_what_they_wait_for


def in_order_by_the_rule(collectives: list[SimpleNamespace]) -> list[SimpleNamespace]:
    """Again and again the first one in the file whose earlier ones are there."""
    waiting, ordered = list(collectives), []
    while waiting:
        done = {c.name for c in ordered}
        ready = next(c for c in waiting if done.issuperset(c.after))
        ordered.append(ready)
        waiting.remove(ready)
    return ordered


@given(data=st.data(), n=st.integers(1, 12))
def test_the_order_is_that_of_the_rule(data: st.DataObject, n: int) -> None:
    in_time = data.draw(st.permutations(range(n)))
    after = {
        name: data.draw(st.lists(st.sampled_from(in_time[:i]), max_size=4)) if i else []
        for i, name in enumerate(in_time)
    }
    collectives = [SimpleNamespace(name=str(i), after=tuple(map(str, after[i]))) for i in range(n)]
    assert _after_what_they_wait_for(collectives) == in_order_by_the_rule(collectives)
