"""What a look samples of the queue pairs that it visits is what it would sample of all, whatever happened before."""

from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from models.network.host.visits import list_members, set_of
from models.network.model import NetworkModel
from models.network.skip.fast_forward import FastForward
from models.network.skip.progress import PAIR, sample_pairs
from properties.network_runs import run
from properties.test_fluid import Flow, flow_lists, networks


def sampled(model: NetworkModel, active: np.ndarray) -> np.ndarray:
    """Rows of a sample, from a set of queue pairs that is left as it is."""
    fast, state = model.fast_forward, model.state
    assert fast is not None
    rows = np.zeros_like(fast._samples.rows)
    nic = state.nic._replace(active=active.copy())
    return rows[: sample_pairs(state.fabric, nic, fast.hidden.here, fast._samples.control_word, rows)]


def wanted(model: NetworkModel) -> np.ndarray:
    """Queue pairs with something to send or unacknowledged that are not frozen, and not under way by markers alone."""
    table, lanes = model.state.nic.queue_pairs, model.state.nic.fluid
    by_markers = (lanes["n_withdrawn"] > 0) & (table["next_byte"] == table["posted_end"])
    by_markers &= table["acked_byte"] >= lanes["from_byte"]
    return np.flatnonzero((table["acked_byte"] < table["posted_end"]) & (model.state.nic.is_frozen == 0) & ~by_markers)


@settings(max_examples=25)
@given(networks(), flow_lists(), st.booleans())
def test_rows_of_the_pairs_that_are_visited_are_those_of_all(
    tables: dict[str, Any], flows: list[Flow], goes_by_python: bool
) -> None:
    seen = {"looks": 0, "frozen": 0, "fewer": 0}

    def check(model: NetworkModel) -> None:
        nic, n_pair = model.state.nic, len(model.state.nic.queue_pairs)
        rows = sampled(model, nic.active)
        assert np.array_equal(rows, sampled(model, set_of(np.ones(n_pair, np.bool_))))
        assert np.array_equal(rows[:, PAIR], wanted(model))
        frozen = np.zeros(n_pair, np.int64)
        frozen = frozen[: list_members(nic.frozen, n_pair, frozen)]
        assert np.array_equal(frozen, np.flatnonzero(nic.is_frozen))
        n_active = list_members(nic.active, n_pair, np.zeros(n_pair, np.int64))
        seen["looks"] += 1
        seen["frozen"] += len(frozen) > 0
        seen["fewer"] += n_active < n_pair

    with patch.object(FastForward, "round_looks", (lambda *_: None) if goes_by_python else FastForward.round_looks):
        run(tables, flows, check=check)
    assert seen["looks"] > 0
    event(f"frozen at some look: {seen['frozen'] > 0}; some were not visited any more: {seen['fewer'] > 0}")
