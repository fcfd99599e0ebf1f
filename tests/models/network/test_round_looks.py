"""Looks within the compiled rounds find what looks from Python find."""

from unittest.mock import patch

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from models.network.skip.fast_forward import FastForward
from properties.network_runs import run
from properties.test_fast_forward import flow_lists, networks


@settings(max_examples=25)
@given(st.data())
def test_a_run_is_the_same_if_every_look_goes_through_python(data: st.DataObject) -> None:
    tables = data.draw(networks())
    flows = data.draw(flow_lists(tables["topology"]["leaves"] * tables["topology"]["hosts_per_leaf"]))
    looks = []
    decide = FastForward._decide

    def count(self: FastForward, *arguments: object) -> None:
        looks.append(arguments)
        decide(self, *arguments)

    with patch.object(FastForward, "_decide", count):
        quickly = run(tables, flows)
        n_quick = len(looks)
        with patch.object(FastForward, "round_looks", lambda *_: None):
            slowly = run(tables, flows)
    fast, other = quickly.model.fast_forward, slowly.model.fast_forward
    assert np.array_equal(quickly.rows, slowly.rows) and quickly.delivered_ps == slowly.delivered_ps
    assert (fast.counters, fast.skipped) == (other.counters, other.skipped)
    assert len(looks) - n_quick == other.counters.looks >= n_quick
    event("some looks find nothing" if n_quick < fast.counters.looks else "every look finds something")
