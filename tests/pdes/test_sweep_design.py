"""Claims about what a sweep is made of: points, constraints, shares of variance, verdicts that hold together."""

from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.config.sweep import SweepConfig
from pdes.errors import ConfigError
from pdes.sweeps.design import axes_of, number_of, points_of
from pdes.sweeps.expression import Expression
from pdes.sweeps.found import Found
from pdes.sweeps.load import sweep_of
from pdes.sweeps.metrics import OF_CLUSTERS
from pdes.sweeps.page import page
from pdes.sweeps.paired import interval, paired
from pdes.sweeps.pareto import pareto
from pdes.sweeps.sensitivity import effects
from pdes.sweeps.store import DONE, FAILED, Row
from pdes.sweeps.told import facts, lines

pytest.importorskip("scipy")


def points(accepts: Any = lambda point: True, **keys: Any) -> list[tuple]:
    config = SweepConfig.model_validate({"config": "a.toml"} | keys)
    return points_of(config, axes_of(config, "sweep.toml"), accepts, "sweep.toml")


def test_a_grid_is_all_combinations() -> None:
    axes = [{"key": "a.b", "values": [1, 2]}, {"key": ["c.d", "c.e"], "values": [[1, 2], [3, 4], [3, 4]]}]
    assert points(axis=axes) == [(1, (1, 2)), (1, (3, 4)), (2, (1, 2)), (2, (3, 4))]


@pytest.mark.parametrize(
    ("axis", "values"),
    [
        ({"from": 1, "to": 10, "count": 4}, [1, 4, 7, 10]),
        ({"from": 1, "to": 3, "count": 5}, [1, 2, 3]),
        ({"from": 1, "to": 1000, "count": 4, "scale": "log"}, [1, 10, 100, 1000]),
        (
            {"from": "100Gbps", "to": "800Gbps", "count": 4, "scale": "log"},
            ["100Gbps", "200Gbps", "400Gbps", "800Gbps"],
        ),
        ({"from": 0.5, "to": 1.0, "count": 3}, [0.5, 0.75, 1.0]),
        ({"from": "1us", "to": "2us", "count": 1}, ["1us"]),
    ],
)
def test_a_range_has_even_steps(axis: dict, values: list) -> None:
    assert [point for (point,) in points(axis=[{"key": "a.b"} | axis])] == values


@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 2**62))
def test_a_latin_hypercube_has_one_point_in_each_part_of_each_axis(n: int, n_axis: int, draw: int) -> None:
    axes = [{"key": f"a.k{k}", "from": 0.0, "to": float(n)} for k in range(n_axis)]
    found = np.array(points(axis=axes, design="latin-hypercube", points=n, draw=draw), float)
    assert (np.sort(np.floor(found).astype(int), axis=0) == np.arange(n)[:, None]).all()


@given(st.integers(1, 50), st.integers(0, 2**62))
def test_points_that_are_drawn_meet_what_they_must(n: int, draw: int) -> None:
    axes = [{"key": "a.x", "from": 0.0, "to": 1.0}, {"key": "a.y", "values": ["p", "q"]}]
    found = points(lambda point: point[0] > 0.5 and point[1] == "q", axis=axes, design="random", points=n, draw=draw)
    assert len(found) == n and all(x > 0.5 and y == "q" for x, y in found)


numbers = st.integers(-20, 20)
OPERATORS = ["+", "-", "*", "/", "//", "%", "<", "<=", "==", "!=", ">", "and", "or"]
leaves = st.one_of(numbers.map(str), st.sampled_from(["a.x", "a.y"]))
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(OPERATORS), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda text: f"(-{text})"),
        st.tuples(inner, inner).map(lambda pair: f"max({pair[0]}, {pair[1]})"),
    ),
    max_leaves=8,
)


@given(expressions, numbers, numbers)
def test_a_constraint_is_what_python_says(text: str, x: int, y: int) -> None:
    try:
        expected = bool(eval(text, {"a": SimpleNamespace(x=x, y=y)}))
    except ZeroDivisionError:
        with pytest.raises(ConfigError):
            Expression(text, "here").holds({"a.x": x, "a.y": y}.__getitem__)
    else:
        assert Expression(text, "here").holds({"a.x": x, "a.y": y}.__getitem__) == expected


@pytest.mark.parametrize(
    "text", ["a.x.__class__()", "open('x')", "[1][0]", "lambda: 1", "2 ** 1000", "'a' < 1", "f'{a}'"]
)
def test_a_constraint_can_do_nothing_else(text: str) -> None:
    with pytest.raises(ConfigError):
        Expression(text, "here").holds({"a.x": 1, "a.x.__class__": 1, "a": 1}.__getitem__)


def found_of(values: np.ndarray, **axes: list) -> Found:
    """A sweep whose runs came to these. values: [n_seed, n_point] of one metric, less is better."""
    base = {"topology": {}, "workload": {}}
    sweep = sweep_of(
        base, Path("a.toml"), {f"a.{key}": own for key, own in axes.items()}, "out", {"seeds": len(values)}
    )
    rows = [Row("", "", 1, DONE, {"iteration": float(value)}, "", 0.0) for value in values.ravel()]
    return Found(sweep, rows, 0)


def test_an_axis_that_changes_nothing_has_no_share_and_one_that_changes_all_has_all() -> None:
    x, y = [1, 2, 3, 4], ["p", "q", "r"]
    values = np.array([[float(one) for one, _ in product(x, y)]])
    found = found_of(values, x=x, y=y)
    by_axis = {effect.axis: effect for effect in effects(found, found.metric())}
    assert by_axis["x"].share == pytest.approx(1.0) and by_axis["y"].share == 0.0
    assert by_axis["x"].groups == [("1", 1.0), ("2", 2.0), ("3", 3.0), ("4", 4.0)]


def test_axes_that_add_up_have_shares_in_proportion_to_their_variances() -> None:
    """y = 3 a + b, both over 0..9: nine tenths and one tenth, but for what chance is taken to give."""
    a = list(range(10))
    found = found_of(np.array([[3.0 * one + other for one, other in product(a, a)]]), a=a, b=a)
    shares = {effect.axis: effect.share for effect in effects(found, found.metric())}
    assert shares["a"] == pytest.approx(0.9, abs=0.02) and shares["b"] == pytest.approx(0.1, abs=0.11)


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[numbers] * n), min_size=1, max_size=30)))
def test_a_front_is_what_nothing_beats(points: list[tuple[int, ...]]) -> None:
    front = pareto(*np.array(points, float).T)
    beaten = {p for p in points if any(q != p and all(b <= a for a, b in zip(p, q, strict=True)) for q in points)}
    assert [points[i] for i in front] == sorted(p for p in points if p not in beaten)
    holes = np.array([*points, [-99] * len(points[0])], float).T
    holes[-1, -1] = np.nan  # best of all, if one of its runs had not failed
    assert pareto(*holes) == front


def test_the_front_is_of_all_metrics_that_are_asked_for() -> None:
    """The second point is the best by none of the three; the fourth is beaten by the first. More goodput is better."""
    names, tables = (
        ["iteration", "fct_p99", "goodput"],
        [(1.0, 3.0, 0.5), (2.0, 2.0, 0.6), (3.0, 1.0, 0.9), (1.0, 3.0, 0.4)],
    )
    for asked, front in ((names, [0, 1, 2]), (names[:2], [0, 3, 1, 2]), (names[:1], []), ([], [0, 3, 1, 2])):
        keys: dict[str, Any] = {"seeds": 1, "metrics": [name for name in asked if name != "goodput"]}
        sweep = sweep_of({"topology": {}, "workload": {}}, Path("a.toml"), {"a.x": [1, 2, 3, 4]}, "out", keys)
        goodput = next(metric for metric in OF_CLUSTERS if metric.name == "goodput")
        sweep = sweep._replace(wanted=[*sweep.wanted, *([goodput] if "goodput" in asked else [])])
        rows = [Row("", "", 1, DONE, dict(zip(names, table, strict=True)), "", 0.0) for table in tables]
        found = Found(sweep, rows, 0)
        assert found.front() == [{"a.x": i + 1} for i in front], asked
        said = next((line for line in lines(found) if line.startswith("Pareto")), "")
        title = {3: "iteration, fct_p99 and goodput", 1: ""}.get(len(asked), "iteration and fct_p99")
        assert said == (f"Pareto front of {title}: " + "; ".join(f"x {i + 1}" for i in front) if front else "")
        assert page(found).count('class="plot" data-plot="pareto') == max(0, len(asked or names[:2]) - 1)


def test_all_verdicts_hold_together_as_often_as_is_said() -> None:
    """Six points, all the same in truth: a verdict is wrong in at most 5 % of 400 sweeps, within three standard errors.

    The best point is the one that looks best, which is what makes verdicts go wrong more often than one by itself.
    """
    draw, n_wrong, n_alone = np.random.default_rng(5), 0, 0
    for _ in range(400):
        values = draw.normal(1.0, 0.1, (6, 6))
        found = found_of(values, k=list("abcdef"))
        n_wrong += any(verdict.difference.more == 0 for verdict in found.compare())
        order = found.order(found.metric())
        n_alone += any(paired(values[:, order[0]].tolist(), values[:, k].tolist()).more == 0 for k in order[1:])
    assert n_wrong / 400 <= 0.05 + 3 * 0.0109
    assert n_alone / 400 > 0.2  # why the level is shared out


def test_an_interval_has_the_truth_in_it_as_often_as_it_says() -> None:
    draws = np.random.default_rng(7).exponential(2.0, (4000, 40))
    n_hit = sum(abs(own.mean - 2.0) <= own.half for own in (interval(row.tolist()) for row in draws))
    assert n_hit / 4000 == pytest.approx(0.94, abs=0.015)  # a little below 95 %, as draws are skewed


def test_verdicts_name_the_better_one_or_how_many_seeds_would_decide() -> None:
    clear = found_of(np.array([[1.0, 2.0], [1.1, 2.2], [0.9, 1.9]]), c=["p", "q"])
    assert clear.compare()[0].text.startswith("p is faster than q by 1.033 s")
    unclear = found_of(np.array([[1.0, 1.3], [1.2, 1.0], [0.9, 0.95]]), c=["p", "q"])
    assert "not decided: about" in unclear.compare()[0].text
    same = found_of(np.ones((2, 2)), c=["p", "q"])
    assert same.compare()[0].text == "p and q are the same in every seed" and not same.is_drawn


def test_numbers_of_quantities_are_in_order() -> None:
    assert number_of("1us") == 1e6 and number_of("2Gbps") == 2e9 and number_of(3) == 3.0 and number_of("hpcc") is None
    assert cast(float, number_of("100Gbps")) < cast(float, number_of("1Tbps"))


def test_where_no_run_ends_there_are_tables_and_no_claims() -> None:
    found = found_of(np.ones((2, 2)), c=["p", "q"])
    failed = Found(found.sweep, [row._replace(status=FAILED, metrics={}, message="no") for row in found.rows], 4)
    assert failed.points()["runs"].to_pylist() == [0, 0] and failed.runs()["status"].to_pylist() == ["failed"] * 4
    said = "\n".join(lines(failed))
    assert "4 runs failed" in said and "the same" not in said and "faster" not in said
    assert facts(failed)["metrics"] == {} and "Runs without a result" in page(failed)
    half = Found(found.sweep, [failed.rows[0], *found.rows[1:]], 4)  # p has one seed of two
    assert half.points()["runs"].to_pylist() == [1, 2] and half.compare() == []
