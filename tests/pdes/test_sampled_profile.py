"""Samples of a run: instants spread over what it has to do, and a mixture of what is found there."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.network.model import LogicalProcesses, NetworkModel
from models.network.skip.make_fast_forward import Wanted, make_fast_forward
from models.network.skip.wake import wake
from models.network.state.records import N_FROZEN_PORT, PACKET_HOPS
from models.network.watch.reached import Reached
from partition.round_model import Mixture, Profile
from pdes import cli
from pdes.config import load_config
from pdes.engine.exchange import World
from pdes.engine.round import END_RUN, HORIZON, NOW, STOP, make_loop, run_rounds
from pdes.errors import SimError
from pdes.plan_options import REDUCTION_NS
from pdes.plan_ranks import Costs, _where_alone, placements, predictions, reduction_by_table
from pdes.scenario import Scenario, build_scenario
from pdes.simulation.profile.forked import forked
from pdes.simulation.profile.instants import sample_run, skipping
from pdes.simulation.profile.make import BEGINNING, SAMPLED, WHOLE, Profiled, make_profile
from pdes.simulation.profile.stretches import Stretch, profiles_of, weigh

CONFIG = """\
[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 4
[network]
congestion_control = "hpcc"
[workload]
kind = "flows"
file = "flows.csv"
"""
SPARSE_BYTES, DENSE_BYTES, DENSE_PS = 24_000_000, 18_000_000, 2_100_000_000
SPARSE_FRAC = SPARSE_BYTES * 8 / (SPARSE_BYTES * 8 + 8 * DENSE_BYTES * 4)  # of packet-hops: 8 and 4 links, with ACKs


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    """One flow for some time, from leaf to leaf, and then eight at a time, each on its leaf."""
    rows = ["src,dst,size_bytes,start_ps", f"0,4,{SPARSE_BYTES},0"]
    pairs = ((0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4), (6, 7), (7, 6))
    rows += [f"{src},{dst},{DENSE_BYTES},{DENSE_PS}" for src, dst in pairs]
    (tmp_path / "flows.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "case.toml").write_text(CONFIG)
    return build_scenario(load_config(tmp_path / "case.toml"))


def model_of(s: Scenario) -> NetworkModel:
    return NetworkModel(
        s.topology,
        s.paths,
        s.plan,
        s.max_window_bytes,
        LogicalProcesses(s.lp_of_node, np.zeros(s.n_lp, np.int64), s.lookahead_ps),
        World(),
        s.parameters,
        lambda *_: None,
    )


def skipped_to(s: Scenario, at_ps: int) -> tuple[NetworkModel, np.ndarray]:
    """A run that skips, at a round's end at that instant."""
    fast_s = skipping(s)
    model = model_of(fast_s)
    p, rtt_ps = fast_s.parameters, s.path_rtt_ps
    fast = model.fast_forward = make_fast_forward(s.topology, model, p, World(), rtt_ps, None, Wanted(tolerance=0.05))
    assert fast is not None
    loop, look = make_loop(s.lookahead_ps, next_look_ps=model.first_look_ps()), model.look

    def look_until(horizon_ps: int) -> int:
        next_ps = look(horizon_ps)
        if horizon_ps >= at_ps:
            return END_RUN
        fast.hold(at_ps)
        return min(next_ps, at_ps)

    model.look = look_until
    run_rounds(model, loop, model.exchange)
    del model.look
    assert loop[HORIZON] == at_ps
    return model, loop


def hops_until(model: NetworkModel, loop: np.ndarray, stop_ps: int) -> int:
    """Packet-hops that are simulated up to an instant."""
    loop[STOP] = stop_ps
    run_rounds(model, loop, model.exchange)
    return int(model.state.fabric.counters[PACKET_HOPS])


def test_samples_stand_for_all_packet_hops_and_follow_them_through_the_run(scenario: Scenario) -> None:
    """The first phase has more than half of the time and a quarter of the packet-hops."""
    found = sample_run(scenario, 1000.0, lambda *_: None)
    assert found is not None and found.is_whole
    at_ps = np.array([stretch.at_ps for stretch in found.stretches])
    hops = np.array([stretch.weight * stretch.hops for stretch in found.stretches])
    assert 20 <= len(at_ps) <= 128 and (np.diff(at_ps) > 0).all()
    assert hops.sum() == pytest.approx(int(scenario.port_hops.sum()))
    is_sparse = at_ps < DENSE_PS
    assert 5 <= is_sparse.sum() < (~is_sparse).sum()
    shares = hops / hops.sum()
    assert shares.max() < 0.04  # and the last stretch of the first phase also stands for the beginning of the second
    assert shares[is_sparse].sum() == pytest.approx(SPARSE_FRAC, abs=shares.max())


def test_a_sampled_profile_has_the_rounds_and_messages_of_the_whole_run(scenario: Scenario) -> None:
    found, whole = (make_profile(scenario, 1000.0, kind) for kind in (SAMPLED, BEGINNING))
    assert (found.kind, found.share, whole.kind) == (SAMPLED, 1.0, WHOLE)
    assert found.run.n_round == pytest.approx(whole.run.n_round, rel=0.15)
    assert found.run.edges[2].sum() == pytest.approx(whole.run.edges[2].sum(), rel=0.02)
    entries = [sum(p.weight * len(p.ns) for p in each.run.stretches) for each in (found, whole)]  # LPs in rounds
    assert entries[0] == pytest.approx(entries[1], rel=0.15)


def test_a_run_that_is_woken_goes_on_as_if_nothing_had_been_skipped(scenario: Scenario) -> None:
    """At several instants: as far as without skipping, nothing skips any more, and packets come as fast."""
    plain, plain_loop, step_ps = model_of(scenario), make_loop(scenario.lookahead_ps), 50_000_000
    for at_ps in (800_000_000, 1_500_000_000, 3_000_000_000):
        before = hops_until(plain, plain_loop, at_ps)
        middle = hops_until(plain, plain_loop, at_ps + step_ps)
        expected = hops_until(plain, plain_loop, at_ps + 2 * step_ps) - middle
        model, loop = skipped_to(scenario, at_ps)
        reached = Reached(model)
        assert reached.is_skipping and reached.hops(at_ps) == pytest.approx(before, rel=0.1)  # by periods
        assert model.state.fabric.counters[PACKET_HOPS] < 0.8 * before
        wake(model, loop)
        assert model.state.fabric.counters[N_FROZEN_PORT] == 0 and not reached.is_skipping
        middle = hops_until(model, loop, at_ps + step_ps)
        assert hops_until(model, loop, at_ps + 2 * step_ps) - middle == pytest.approx(expected, rel=0.03)


def test_sampling_leaves_the_run_as_it_is(scenario: Scenario) -> None:
    model, loop = skipped_to(scenario, 1_500_000_000)
    queue_pairs, now_ps, reached = model.state.nic.queue_pairs.copy(), int(loop[NOW]), Reached(model)

    def wakes() -> bool:
        wake(model, loop)
        return reached.is_skipping

    assert reached.is_skipping and forked(wakes) is False
    assert (model.state.nic.queue_pairs == queue_pairs).all() and loop[NOW] == now_ps and reached.is_skipping


def test_a_copy_that_fails_says_why() -> None:
    def fails() -> None:
        raise ValueError("not today")

    with pytest.raises(SimError, match="not today"):
        forked(fails)
    with pytest.raises(SimError, match="without a word"):
        import os

        forked(lambda: os._exit(3))


def test_weights_are_scaled_to_what_is_expected() -> None:
    stretches = [Stretch(0, hops=10, weight=3.0), Stretch(5, hops=40, weight=1.0)]
    weigh(stretches, 700.0)
    assert [stretch.weight for stretch in stretches] == [30.0, 10.0]


def test_rounds_that_were_cut_short_to_be_read_are_joined(scenario: Scenario) -> None:
    """Ten rounds of 5 us, two nodes of one LP in each: rounds of 20 us in the run. Shorter ones are as they were."""
    nodes = np.flatnonzero(scenario.lp_of_node == scenario.lp_of_node[0])
    node = nodes[[0, -1]] if len(nodes) > 1 else np.array([0, 0])
    s = replace(scenario, lookahead_ps=1_000_000, longest_round_ps=5_000_000)
    parts = {
        "busy": np.tile([1.0, 1000.0], (10, 1)), "entry": np.repeat(np.arange(10, dtype=np.int32), 2),
        "node": np.tile(node, 10).astype(np.int32), "steps": np.full(20, 7, np.int32), "n_reduction": 10,
    }  # fmt: skip
    long, short = (Stretch(0, span_ps=span_ps, **parts) for span_ps in (50_000_000, 10_000_000))
    joined, apart = profiles_of(s, [long, short], 20_000_000)
    assert (joined.n_round, joined.n_reduction, apart.n_round, apart.n_reduction) == (3, 3, 10, 10)
    assert joined.round_of.tolist() == [0, 1, 2] and apart.round_of.tolist() == list(range(10))
    assert joined.ns.sum() == pytest.approx(apart.ns.sum()) and joined.ns[0] == pytest.approx(4 * apart.ns[0])


def test_out_of_time_is_said_with_the_share(scenario: Scenario) -> None:
    found = make_profile(scenario, 0.0, BEGINNING)
    assert not found.is_whole and found.share < 1 and found.run.work_ns >= 0


def test_long_stretches_are_placed_by_what_lps_took(scenario: Scenario) -> None:
    """All work on the LPs of one rank: with re-balancing they part, if there is time for it."""
    s = scenario
    first = placements(s, profiled(s, {0: 1.0}, 1.0), 2)[0]
    ours = np.flatnonzero(first == 0)
    short, long = (
        profiled(s, dict.fromkeys(ours.tolist(), 1e6), 1.0),
        profiled(s, dict.fromkeys(ours.tolist(), 1e6), 1e6),
    )
    assert (placements(s, short, 2)[0] == first).all()
    assert set(placements(s, long, 2)[0][ours].tolist()) == {0, 1}


def profiled(s: Scenario, ns_of_lp: dict[int, float], weight: float) -> Profiled:
    lp, ns = np.array(list(ns_of_lp), np.int64), np.array(list(ns_of_lp.values()))
    p = Profile(1, 1, np.zeros(len(lp), np.int64), lp, ns, 0.0, 0.0, weight)
    src, dst, packets = s.lp_edges()
    return Profiled(Mixture([p], (src, dst, packets * 1.0)), SAMPLED, True, 1.0, 100, 10, 1.0, np.array([50]))


def test_what_holds_many_ranks_back_is_said_in_words(scenario: Scenario, capsys: pytest.CaptureFixture[str]) -> None:
    from pdes.plan_ranks import _why_low

    costs = Costs(reduction_by_table(REDUCTION_NS), 0.0, 0.0)
    found = predictions(scenario, profiled(scenario, {0: 1e9}, 1.0), [1, 4], costs)
    (said,) = _why_low(found)
    assert said.startswith("4 ranks, 25 % efficiency: held back by the critical path") and "longest LP 75 %" in said
    even = dict.fromkeys(range(scenario.n_lp), 1e9)
    assert _why_low(predictions(scenario, profiled(scenario, even, 1.0), [1, 2], costs)) == []


def test_plan_says_where_rank_0_goes_on_alone(tmp_path: Path, scenario: Scenario) -> None:
    """Where something may be skipped and all ranks take longer than one, as decisions do."""
    costs = Costs(reduction_by_table(REDUCTION_NS), 0.0, 0.0)
    even = dict.fromkeys(range(scenario.n_lp), 1e9 / scenario.n_lp)
    found = predictions(scenario, profiled(scenario, even, 1.0), [1, 2, 4], costs)
    slower = [replace(row, serial_ns=2e9 * (row.n_rank > 1)) for row in found]
    of_mode = {
        mode: build_scenario(load_config(tmp_path / "case.toml", [f"wormhole.mode={mode}"])) for mode in ("off", "auto")
    }
    (said,) = _where_alone(of_mode["auto"], slower)
    assert said.startswith("on 2, 4 ranks rank 0 will go on alone, in about 1 s")
    assert _where_alone(of_mode["off"], slower) == _where_alone(of_mode["auto"], found) == []


def test_plan_says_what_was_sampled(scenario: Scenario, capsys: pytest.CaptureFixture[str]) -> None:
    config, kept = str(scenario.config.source), str(scenario.config.source.with_name("p.npz"))
    from pdes.simulation.profile.profile_file import write_profile

    write_profile(Path(kept), make_profile(scenario, 1000.0, SAMPLED), scenario.identity())
    assert cli.main(["plan", config, "--ranks", "1,2", "--profile", kept]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "stretches, packet by packet, of the whole run" in out and "100 % of the packet-hops" in out
    assert "by quarters of simulated time" in out
