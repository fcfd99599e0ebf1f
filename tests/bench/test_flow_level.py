"""What the comparison with SimGrid is made of: what SimGrid is given, its answer, and how that is compared."""

from pathlib import Path

import numpy as np
import pytest
from flow_level import (
    Ran,
    draw_sweep,
    errors,
    first_flows,
    kept_answer,
    write_case,
    write_for_simgrid,
)

from flow_components import component, component_sizes
from pdes.convert.flow_case import Flow, read_case


def test_simgrid_has_each_pair_s_first_way_and_starts_that_are_late_by_its_links(tmp_path: Path) -> None:
    flows = [
        Flow(2, 75_000, 0, 15, 1000, 1, 1), Flow(3, 10**12 + 5, 0, 1, 7, 0, 0), Flow(4, 90_000, 0, 15, 9, 0, 0),
    ]  # fmt: skip
    assert write_for_simgrid(flows, 4, tmp_path / "case.txt").tolist() == [75_000, 10**12 + 5, 90_000]
    assert (tmp_path / "case.txt").read_text().splitlines() == [
        "7 2 3", "0 15 6 0 1 2 3 4 5", "0 1 2 0 6",
        "0.000006075000 0 1000", "1.000002000005 1 7", "0.000006090000 0 9",
    ]  # fmt: skip


def test_a_case_is_cut_and_converted(tmp_path: Path) -> None:
    write_case(tmp_path / "all.csv", 4, 50, 0.5, 1)
    config = first_flows(tmp_path / "all.csv", 20, tmp_path / "first")
    kept = read_case(tmp_path / "first" / "flows.csv").flows
    assert config.is_file() and kept == read_case(tmp_path / "all.csv").flows[:20]


def test_an_answer_counts_if_it_has_all_flows(tmp_path: Path) -> None:
    (tmp_path / "some_result.csv").write_text("flow,start_s,end_s,fct_us\n1,0,0,5.5\n0,0,0,4\n")
    assert kept_answer(tmp_path, 3) is None and kept_answer(None, 2) is None
    answer = kept_answer(tmp_path, 2)
    assert answer is not None and answer.tolist() == [4, 5.5]


def test_errors_are_relative_to_the_other_s_times() -> None:
    found = errors(np.array([1.0, 2.0, 3.03]), np.array([1.0, 2.0, 3.0]))
    assert (found["median"], found["most"], found["apart_ns"]) == (0, pytest.approx(0.01), pytest.approx(30))


def test_ways_are_connected_over_links_that_they_share() -> None:
    assert component_sizes([[1, 2], [2, 3], [4], [3, 5], [6, 7], [7]]) == [3, 3, 1, 3, 2, 2]
    assert component_sizes([]) == []


def test_a_component_is_the_mean_over_flows_and_times() -> None:
    """Two flows from host 0, one elsewhere, all the time: components of 2, 2 and 1; then none of the two."""
    flows = [Flow(2, 0, 0, 15, 1, 1, 1), Flow(3, 0, 0, 14, 1, 0, 0), Flow(4, 0, 4, 5, 1, 0, 0)]
    start_us = np.zeros(3)
    assert component(flows, 4, start_us, np.full(3, 10.0)) == pytest.approx(5 / 3)
    assert component(flows, 4, start_us, np.array([10.0, 1e-9, 10.0])) == 1


def test_the_sweep_is_drawn_the_same_every_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [{"component": 3.0, "us": 2.0}, {"component": 400.0, "us": 60.0}]
    for name in ("a.svg", "b.svg"):
        draw_sweep(rows, tmp_path / name)
    text = (tmp_path / "a.svg").read_text()
    assert "connected component" in text and text == (tmp_path / "b.svg").read_text()


def test_cpu_time_in_the_loop_leaves_out_what_others_had() -> None:
    ran = Ran(loop_s=[4.0, 3.0, 8.0], wall_s=[8.0, 5.0, 20.0], cpu_s=[4.0, 5.2, 6.0], fct_us=np.ones(1), facts={})
    assert ran.loop_cpu_s == pytest.approx(2.4)
