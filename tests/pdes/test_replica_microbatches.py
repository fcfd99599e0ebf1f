"""Claims about unequal shares of the batch: none is lost, gradients are summed once, a formula, and never slower."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdes
from models.compute.model_shape import ModelShape
from pdes.errors import ConfigError

MODEL = {"layers": 4, "hidden": 512, "heads": 8, "vocabulary": 4096, "sequence": 512, "tied_embeddings": False}
KINDS = ("a100-80g", "h100", "h20", "b200")


def tables(kinds: list[str], shares: Any, pp: int = 1, mode: str = "off", **more: Any) -> dict[str, Any]:
    """A replica on each server of pp GPUs."""
    dp = len(kinds)
    placement = [replica * pp + stage for stage in range(pp) for replica in range(dp)]
    batch = {} if isinstance(shares, list) else {"microbatches": 6}
    return {
        "simulation": {"iterations": 2},
        "topology": {"kind": "roft", "gpus": pp * dp, "gpus_per_server": pp, "nvlink": "packets"},
        "workload": {
            "kind": "training", "model": MODEL, "compute": {"gpu": kinds[0]}, "placement": placement,
            "gpus": [{"servers": [i], "gpu": kind} for i, kind in enumerate(kinds)],
            "parallel": {"tp": 1, "pp": pp, "dp": dp, "replica_microbatches": shares},
        } | batch | more,
        "network": {"congestion_control": "dctcp", "payload": "4096B"}, "wormhole": {"mode": mode},
    }  # fmt: skip


def time_ps(config: dict[str, Any], folder: Path) -> int:
    return pdes.simulate(config, folder / "out").summary["iteration_time_ps"][-1]


@pytest.mark.parametrize(("shares", "zero"), [([7, 3, 2], 0), ([1, 10, 1], 1), ("even", 0)])
def test_no_microbatch_is_lost_and_every_gradient_is_summed_once(shares: Any, zero: int, tmp_path: Path) -> None:
    run = pdes.simulate(tables(["h100", "a100-80g", "h20"], shares, 2, zero=zero), tmp_path / "out")
    rows, parameters = run.tasks.to_pydict(), ModelShape(**MODEL).parameters()
    each = shares if isinstance(shares, list) else [6] * 3
    for replica in range(3):
        gpus, summed, sent = {2 * replica, 2 * replica + 1}, [0, 0], [0, 0]
        for kind, stream, gpu, i, n in zip(*(rows[name] for name in ("kind", "stream", "gpu", "iteration", "bytes")),
                                           strict=True):  # fmt: skip
            summed[i] += n if kind == "dp" and stream == "reduce" and gpu in gpus else 0
            sent[i] += n if kind == "pp-wait" and gpu in gpus else 0
        assert summed == [4 * parameters] * 2
        assert sent == [each[replica] * 2 * MODEL["sequence"] * MODEL["hidden"] * 2] * 2  # there and back, bf16


def test_a_replica_of_one_stage_takes_as_long_as_its_microbatches(tmp_path: Path) -> None:
    """Two microbatches more take as long whatever it has besides."""

    def computed_ps(m: int) -> int:
        rows = pdes.simulate(tables(["h100", "h100"], [m, 2]), tmp_path / "out").tasks.to_pydict()
        columns = (rows[name] for name in ("kind", "gpu", "iteration", "start_ps", "end_ps"))
        return sum(
            end - start for kind, gpu, i, start, end in zip(*columns, strict=True)
            if kind in ("forward", "backward") and gpu == 0 and i == 0
        )  # fmt: skip

    three, five, nine = computed_ps(3), computed_ps(5), computed_ps(9)
    assert five > three and nine - five == pytest.approx(2 * (five - three), rel=1e-6)


@pytest.mark.parametrize("mode", ["exact", "flow"])
def test_what_is_skipped_does_not_change_it(mode: str, tmp_path: Path) -> None:
    kinds, shares = ["h100", "a100-80g"], [25, 13]
    found, exact = (time_ps(tables(kinds, shares, 2, m), tmp_path) for m in (mode, "off"))
    assert found == pytest.approx(exact, rel=1e-6 if mode == "exact" else 0.01)


def test_the_breakdown_still_adds_up(tmp_path: Path) -> None:
    run = pdes.simulate(tables(["h100", "a100-80g"], [9, 3], 2), tmp_path / "out")
    rows = run.table("breakdown").to_pydict()
    parts = [name for name in rows if name.endswith("_ps") and name not in ("end_ps", "span_ps")]
    for i, span_ps in enumerate(rows["span_ps"]):
        assert sum(rows[name][i] for name in parts) == span_ps
        assert all(rows[name][i] >= 0 for name in parts)


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=4))
    more = {"zero": draw(st.sampled_from([0, 1])), "microbatches": draw(st.sampled_from([1, 2, 6]))}
    return tables(kinds, "auto", draw(st.sampled_from([1, 2])), **more)


@settings(max_examples=40)
@given(clusters())
def test_shares_by_what_gpus_can_do_are_not_slower_than_even_ones(tmp_path_factory: Any, config: Any) -> None:
    folder = tmp_path_factory.mktemp("shares")
    run = pdes.simulate(config, folder / "out").summary
    shares, dp = run["workload"]["microbatches_per_replica"], config["workload"]["parallel"]["dp"]
    assert sum(shares) == dp * config["workload"]["microbatches"] and min(shares) >= 1
    config["workload"]["parallel"]["replica_microbatches"] = "even"
    assert run["iteration_time_ps"][-1] <= 1.01 * time_ps(config, folder)


def test_a_faster_replica_has_more_and_that_is_faster(tmp_path: Path) -> None:
    run = pdes.simulate(tables(["a100-80g", "h100"], "auto"), tmp_path / "out").summary
    shares = run["workload"]["microbatches_per_replica"]
    assert shares[1] > shares[0]
    assert run["iteration_time_ps"][-1] < 0.9 * time_ps(tables(["a100-80g", "h100"], "even"), tmp_path)


@pytest.mark.parametrize(
    ("shares", "more", "text"),
    [
        ("fair", {}, 'replica_microbatches: found "fair". Accepted: "even", "auto", or a list'),
        ([4, 0], {}, r"replica_microbatches: found \[4, 0\]"),
        ([4, 4, 4], {}, "3 numbers for 2 replicas. Accepted: a list of 2"),
        ([4, 4], {"microbatches": 4}, "microbatches: is there, and so is a list of replicas'"),
        ([4, 4], {"global_batch": 9}, "found 9, and replica_microbatches are 8 of 1 in all. Accepted: 8, or none"),
        ([4, 4], {"zero": 3}, "is there with zero = 3, by which replicas exchange in every microbatch"),
        ("auto", {"microbatch": "auto", "global_batch": 8, "microbatches": None}, 'and microbatch is "auto"'),
    ],
)  # fmt: skip
def test_bad_values_are_refused(shares: Any, more: dict[str, Any], text: str, tmp_path: Path) -> None:
    config = tables(["h100", "h100"], shares, **more)
    config["workload"] = {key: value for key, value in config["workload"].items() if value is not None}
    with pytest.raises(ConfigError, match=text):
        pdes.simulate(config, tmp_path / "out")
