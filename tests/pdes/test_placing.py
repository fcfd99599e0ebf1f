"""Claims about optimised placements: what packets say of them, what is said of them, and what they follow from."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdes
from pdes.config import config_from_dict
from pdes.simulation.preparation import placing
from pdes.simulation.preparation.placing import build_placed

MODEL = {"layers": 8, "hidden": 512, "heads": 8, "vocabulary": 4096, "sequence": 512}
KINDS = ("a100-80g", "h100", "h200", "h20")
LAYOUTS = ((1, 2, 8), (1, 4, 4), (1, 8, 2), (2, 2, 4), (2, 4, 2), (2, 1, 8), (4, 2, 2), (4, 4, 1), (1, 1, 16))


def tables(kinds: list[str], layout: tuple[int, int, int], **more: Any) -> dict[str, Any]:
    """kinds: of servers; layout: tp, pp, dp; topology, network and the rest of [workload]: more."""
    tp, pp, dp = layout
    per_server = tp * pp * dp // len(kinds)
    topology = {"kind": "roft", "gpus": tp * pp * dp, "gpus_per_server": per_server, "nvlink": "packets"}
    gpus = [{"servers": [i], "gpu": kind} for i, kind in enumerate(kinds)]
    return {
        "simulation": {"iterations": 2}, "topology": more.pop("topology", topology),
        "workload": {
            "kind": "training", "model": MODEL, "compute": {"gpu": kinds[0]}, "gpus": gpus,
            "parallel": {"tp": tp, "pp": pp, "dp": dp}, "microbatches": 4, "placement": "optimised",
        } | more,
        "network": {"congestion_control": "dctcp", "payload": "4096B"}, "wormhole": {"mode": "off"},
        "output": {"tasks": False},
    }  # fmt: skip


def leaf_spine(leaves: int, hosts_per_leaf: int) -> dict[str, Any]:
    return {"kind": "leaf-spine", "leaves": leaves, "spines": 2, "hosts_per_leaf": hosts_per_leaf}


def time_ps(config: dict[str, Any], folder: Path, placement: Any = "optimised") -> int:
    own = config | {"workload": config["workload"] | {"placement": placement}}
    return pdes.simulate(own, folder / "out").summary["iteration_time_ps"][-1]


@st.composite
def mixes(draw: st.DrawFn) -> dict[str, Any]:
    layout = draw(st.sampled_from(LAYOUTS))
    more: dict[str, Any] = {"zero": draw(st.sampled_from([0, 1])), "microbatches": draw(st.sampled_from([1, 4, 8]))}
    if draw(st.booleans()):
        kinds = draw(st.lists(st.sampled_from(KINDS), min_size=4, max_size=4))
        return tables(kinds, layout, **more)
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=16, max_size=16))
    return tables(kinds, layout, **more, topology=leaf_spine(4, 4))


@settings(max_examples=40)
@given(mixes())
def test_an_optimised_placement_is_not_slower_with_packets(tmp_path_factory: Any, config: dict[str, Any]) -> None:
    folder = tmp_path_factory.mktemp("mix")
    assert time_ps(config, folder) <= 1.01 * time_ps(config, folder, "in-order")


MIX = tables(["h100", "a100-80g", "h100", "a100-80g"], (2, 4, 2))


def said(tmp_path: Path) -> tuple[str, list[int]]:
    summary = pdes.simulate(MIX, tmp_path / "out").summary
    return summary["workload"]["placement"], summary["iteration_time_ps"]


def test_a_run_says_what_it_went_by_and_repeats(tmp_path: Path) -> None:
    text, times_ps = said(tmp_path)
    assert text.startswith("optimised: by flow mode an iteration takes ")
    assert (text, times_ps) == said(tmp_path)


def test_a_placement_that_flow_mode_calls_slower_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times_ps = iter([5 * 10**9, 5 * 10**9])
    monkeypatch.setattr(placing, "_iteration_ps", lambda _: next(times_ps))
    text, found_ps = said(tmp_path)
    assert text == "in order: by flow mode an iteration takes 5 ms, optimised 5 ms"
    assert found_ps[-1] == time_ps(MIX, tmp_path, "in-order")


def test_a_long_run_in_flow_mode_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_flow = said(tmp_path)
    monkeypatch.setattr(placing, "MOST_EVENTS", 10)
    text, times_ps = said(tmp_path)
    assert text.startswith("optimised: by the closed form an iteration takes ") and times_ps == by_flow[1]


def test_a_network_without_flow_mode_goes_by_the_closed_form(tmp_path: Path) -> None:
    lossy = MIX | {"network": MIX["network"] | {"loss": {"probability": 1e-9}}}
    text = build_placed(config_from_dict(lossy)).plan.facts["placement"]
    assert isinstance(text, str) and text.startswith("optimised: by the closed form")
