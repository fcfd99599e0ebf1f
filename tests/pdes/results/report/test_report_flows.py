"""Distributions of a report: against sorting everything, and nothing counted twice or left out."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.topology import leaf_spine
from pdes.results.report.flows import class_rows, distribution, points, quantile, read_flows, size_classes, tag_rows
from pdes.results.report.ports import read_ports
from pdes.results.report.why import hops_of, rows_at, why_text
from reference.result_folders import make_folder

RATE = 10**11
STAR = leaf_spine(1, 0, 4, RATE, RATE, 10**6, 10**6)


def flow(size: int, fct: int, ideal: int, tag: str = "dp", **more: int) -> dict:
    return {"size_bytes": size, "finish_ps": fct, "ideal_fct_ps": ideal, "tag": tag, "src": 0, "dst": 1, **more}


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 100))
def test_a_quantile_is_the_smallest_value_that_so_many_do_not_pass(values: list[int], percent: int) -> None:
    """Compared in whole numbers."""
    found = quantile(np.array(values), percent / 100)
    expected = min(x for x in values if Fraction(sum(y <= x for y in values), len(values)) >= Fraction(percent, 100))
    assert found == expected


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=500))
def test_a_distribution_ends_with_all_at_the_largest(values: list[float]) -> None:
    x, y = distribution(np.array(values))
    assert y[-1] == 1 and x[-1] == pytest.approx(max(values), rel=1e-4)
    assert x == sorted(x) and y == sorted(y) and len(x) == len(y) <= 200
    for at, share in zip(x, y, strict=True):
        assert np.sum(np.array(values) <= at * (1 + 1e-4)) / len(values) >= share - 1e-6


def test_tables_by_size_and_kind_have_every_finished_flow_once(tmp_path: Path) -> None:
    flows = [flow(1000, 20, 10), flow(1001, 90, 30, "pp"), flow(2000, 60, 30), flow(10**12 + 1, 7, 7), flow(5, -1, 1)]
    sample = read_flows(make_folder(tmp_path, STAR, flows=flows) / "flows.parquet")
    assert (sample.n_flow, sample.n_finished, sample.stride) == (5, 4, 1)
    rows = class_rows(sample)
    assert [(row[0], row[1]) for row in rows] == [("up to 1 kB", "1"), ("1 kB to 10 kB", "2"), ("from 1 TB", "1")]
    assert rows[1] == ("1 kB to 10 kB", "2", "3 kB", "60 ps", "90 ps", "90 ps", "2.00", "3.00", "3.00")
    assert [row[:2] for row in tag_rows(sample)] == [("dp", "3"), ("pp", "1")]
    assert size_classes(np.array([1000, 1001, 10**12, 10**12 + 1]))[0].tolist() == [0, 1, 9, 10]


def test_of_more_flows_than_fit_every_nth_stands_for_the_others(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, STAR, flows=[flow(1000 + i, 20 + i, 10) for i in range(10)])
    sample = read_flows(folder / "flows.parquet", most=4)
    assert (sample.n_flow, sample.n_finished, sample.stride) == (10, 10, 3)
    assert sample.size_bytes.tolist() == [1000, 1003, 1006, 1009] and set(points(sample)) == {0, 1, 2, 3}
    assert rows_at(folder / "flows.parquet", ("size_bytes", "tag"), [9, 0]) == [
        {"size_bytes": 1009, "tag": "dp"}, {"size_bytes": 1000, "tag": "dp"},
    ]  # fmt: skip


def test_two_flows_that_share_a_port_fill_it(tmp_path: Path) -> None:
    """Each of 1000 packets of 1048 bytes on the wire takes its half of 100 Gbps: 2000 x 1048 x 8 / 1e11 s."""
    fct_ps = 2000 * 1048 * 8 * 10
    ports = read_ports(make_folder(tmp_path, STAR) / "ports.parquet")
    port = next(i for i in range(len(ports)) if ports.name(i) == "leaf0 -> host1")
    own = flow(1_000_000, fct_ps, fct_ps // 2) | {"fct_ps": fct_ps, "retransmitted_bytes": 0, "ecn_marks": 0}
    way = [{"port_id": port, "flows_beside": 1, "bytes_beside": 1_000_000}]
    result = {"config": {"network": {"payload_bytes": 1000, "header_bytes": 48}}}
    hops = hops_of(own, way, ports, result)
    assert hops[0].full_frac == pytest.approx(1)
    assert why_text(own, hops, ports, 10**12) == "leaf0 -> host1 was 100 % full: 1 other flow, 1 MB beside it"
    alone = hops_of(own, [way[0] | {"flows_beside": 0, "bytes_beside": 0}], ports, result)
    assert alone[0].full_frac == pytest.approx(0.5)
    sent_again = why_text(own | {"retransmitted_bytes": 3000, "ecn_marks": 2}, [], ports, 10**12)
    assert sent_again == "3 kB sent again; 2 packets came back marked"
    ports.columns["paused_ps"][port] = 10**11
    assert why_text(own, alone, ports, 10**12).endswith("leaf0 -> host1 was paused for 10 % of the run")
