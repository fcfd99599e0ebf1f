"""Scenarios that are built together: each is the one that its config has by itself, to the last byte."""

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdes.config.load import config_from_dict, load_config
from pdes.config.values import make_config
from pdes.errors import ConfigError
from pdes.experiments import build
from pdes.experiments.build import build_all
from pdes.experiments.join import _law_sets  # pyright: ignore[reportPrivateUsage]
from pdes.scenario import Scenario, build_scenario

FABRICS = (
    {"kind": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 3},
    {"kind": "fat-tree", "k": 4, "host_rate": "40Gbps"},
    {"kind": "dragonfly", "groups": 3, "routers_per_group": 2, "hosts_per_router": 2, "global_links": 1},
)


def tables(seed: int, topology: dict[str, Any], flows: int = 9, **network: Any) -> dict[str, Any]:
    traffic = {"kind": "poisson", "sizes": "web-search", "load": 0.5, "flows": flows}
    return {"simulation": {"seed": seed}, "topology": topology, "network": network, "workload": traffic}


def assert_equal(one: Any, other: Any, where: str = "") -> None:
    """Of scenarios, with all that they are made of."""
    assert type(one) is type(other), where
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes(), where
    elif dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            assert_equal(getattr(one, field.name), getattr(other, field.name), f"{where}.{field.name}")
    elif isinstance(one, tuple):
        assert len(one) == len(other), where
        for i, pair in enumerate(zip(one, other, strict=True)):
            assert_equal(*pair, f"{where}[{i}]")
    else:
        assert one == other, where


def assert_each_is_its_own(configs: list[dict[str, Any]]) -> list[Scenario]:
    together = build_all([make_config(config) for config in configs])
    for config, found in zip(configs, together, strict=True):
        assert_equal(found, build_scenario(make_config(config)))
    return together


@settings(max_examples=60)
@given(st.data())
def test_each_is_that_of_its_config(data: st.DataObject) -> None:
    configs = []
    for _ in range(data.draw(st.integers(1, 6))):
        network = {
            "congestion_control": data.draw(st.sampled_from(("dctcp", "hpcc"))),
            "payload": data.draw(st.sampled_from(("1000B", "4000B"))),
            "window": data.draw(st.sampled_from(("auto", "pair-bdp", "none"))),
            "ecmp_seed": data.draw(st.integers(0, 1)),
        }
        topology = data.draw(st.sampled_from(FABRICS))
        if data.draw(st.integers(0, 4)) == 0 and topology["kind"] == "leaf-spine":
            nodes = ["host0", "leaf0", "spine1", "leaf1", "host3"]
            network["path"] = [{"nodes": nodes}]
        configs.append(tables(data.draw(st.integers(1, 9)), topology, data.draw(st.integers(1, 12)), **network))
    assert_each_is_its_own(configs)


def test_more_pairs_than_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MOST_PAIRS", 20)
    found = assert_each_is_its_own([tables(seed, FABRICS[1], 5 + seed) for seed in range(1, 9)])
    assert len({id(one.topology) for one in found}) == len({id(one.control) for one in found}) == 1


def test_what_cannot_be_routed_together_is_routed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it says by itself what is wrong."""

    def refuse(*_: Any) -> None:
        raise ConfigError("routing", "nothing", "something")

    monkeypatch.setattr(build, "route_pairs", refuse)
    assert_each_is_its_own([tables(seed, FABRICS[0]) for seed in (1, 2)])


def test_what_is_wrong_with_one_is_said_of_it() -> None:
    wrong = tables(2, FABRICS[0])
    wrong["network"] = {"path": [{"nodes": ["host0", "nowhere"]}]}
    with pytest.raises(ConfigError, match="nowhere"):
        build_all([make_config(config) for config in (tables(1, FABRICS[0]), wrong)])


def test_equal_tables_are_one_object_and_the_callers_are_copied() -> None:
    data = tables(1, dict(FABRICS[1]), ecn_kmin="30KB", ecn_kmax="90KB")
    one = config_from_dict(data)
    data["topology"]["k"] = 6
    other, third = config_from_dict(data), make_config(tables(2, FABRICS[1], ecn_kmin="30KB", ecn_kmax="90KB"))
    assert (getattr(one.topology, "k"), getattr(other.topology, "k")) == (4, 6)  # noqa: B009
    assert one.topology is third.topology and one.network is third.network and one.network is other.network
    assert one.simulation is not third.simulation and pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize("wrong", [True, 4.5, [4], None])
def test_values_that_look_alike_are_not_the_same(wrong: Any) -> None:
    for _ in range(2):
        assert getattr(make_config(tables(1, FABRICS[1])).topology, "k") == 4  # noqa: B009
        with pytest.raises(ConfigError, match=r"\[topology\] k"):
            make_config(tables(1, FABRICS[1] | {"k": wrong}))


def test_a_file_that_goes_is_missed(tmp_path: Path) -> None:
    (tmp_path / "sizes.txt").write_text("10000 0\n10000 100\n")
    text = '[topology]\nkind = "fat-tree"\nk = 4\n[workload]\nkind = "poisson"\nload = 0.1\nflows = 5\n'
    (tmp_path / "c.toml").write_text(text + 'sizes = "sizes.txt"\n')
    load_config(tmp_path / "c.toml")
    (tmp_path / "sizes.txt").unlink()
    with pytest.raises(ConfigError, match="sizes.txt"):
        load_config(tmp_path / "c.toml")


class _Values:
    def __init__(self, **values: int) -> None:
        self.law_values = values


def test_neighbours_with_the_same_parameters_have_one_set_of_them() -> None:
    parts: Any = [_Values(g=1), _Values(g=1), _Values(g=2), _Values(g=1)]
    assert _law_sets(parts, [3, 4, 5, 6]) == (({"g": 1}, 7), ({"g": 2}, 5), ({"g": 1}, 6))
