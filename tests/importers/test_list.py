"""The generated equivalents of every format, with how many nodes each has: read, counted, run to the end."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from pdes import simulation
from pdes.config.load import config_from_dict
from reference import made_traces as made


class Made(NamedTuple):
    """One of them. write: makes the file; keys: of [workload]; n_node by kind."""

    write: Callable[[Path], object]
    keys: dict[str, object]
    n_node: dict[str, int]


def text(name: str, content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(content)


LIST = {
    "Chakra, two ranks": Made(
        lambda folder: made.write_chakra(folder, "two", made.two_ranks()),
        {"format": "chakra", "file": "two"},
        {"compute": 2, "send": 1, "receive": 1, "collective": 2},
    ),
    "Chakra with communicators, dependencies that go back in the file, no version": Made(
        made.hybrid_llama,
        {"format": "chakra", "file": "llama", "communicators": "llama.json"},
        {"compute": 8, "send": 4, "receive": 4, "collective": 8},
    ),
    "Chakra's older JSON, parents missing": Made(
        text("p.0.json", json.dumps(made.PYTORCH_JSON)),
        {"format": "chakra", "file": "p.0.json", "tolerant": True},
        {"compute": 3},
    ),
    "GOAL with comments, wildcards, irequires": Made(
        text("r.goal", made.GOAL_RING),
        {"format": "goal", "file": "r.goal"},
        {"compute": 2, "send": 3, "receive": 3},
    ),
    "SimAI, blanks and tabs, suffixes, pp_comm without a colon": Made(
        text("w.txt", made.SIMAI),
        {"format": "simai", "file": "w.txt"},
        {"compute": 8 * 8, "collective": 8 * 7, "metadata": 8 * 6},
    ),
    "ASTRA-sim 1, data parallel": Made(
        text("w.txt", made.ASTRA_DATA),
        {"format": "astra-sim-text", "file": "w.txt", "gpus": 4},
        {"compute": 4 * 5, "collective": 4 * 2, "metadata": 4 * 2},
    ),
    "htsim with triggers, one of them to another host": Made(
        text("c.cm", made.HTSIM_SERIAL),
        {"format": "htsim", "file": "c.cm"},
        {"send": 5, "receive": 5, "metadata": 1},
    ),
}


@pytest.mark.parametrize("name", LIST)
def test_it_has_its_nodes_and_runs_to_the_end(name: str, tmp_path: Path) -> None:
    entry = LIST[name]
    entry.write(tmp_path)
    data = {
        "topology": {"kind": "leaf-spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 4},
        "workload": {"kind": "trace", **entry.keys},
        "output": {"dir": str(tmp_path / "out")},
    }
    simulation.simulate(config_from_dict(data, tmp_path / "config.toml"))
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["workload"]["nodes_by_kind"] == entry.n_node
    assert len(result["iteration_time_ps"]) == 1 and result["iteration_time_ps"][0] > 0
