"""Claims about `pdes-sim explain`: every key is there, with what it means, and what it accepts is what is accepted."""

import tomllib
from pathlib import Path

import pytest

from pdes.cli import main
from pdes.config import LAW_TABLES, Config, config_from_dict
from pdes.config.tables.fields import Table
from pdes.config.tables.topology import TOPOLOGY_KINDS
from pdes.config.tables.workload import WORKLOAD_KINDS
from pdes.errors import ConfigError
from pdes.explain import all_keys, control_keys, find

KEYS = all_keys()


def tables() -> set[type[Table]]:
    """Every class of the schema that has keys."""
    found, open_ones = set(), list(Table.__subclasses__())
    while open_ones:
        table = open_ones.pop()
        open_ones += table.__subclasses__()
        found.add(table)
    return found


def test_every_key_of_the_schema_says_what_it_means() -> None:
    silent = [f"{t.__name__}.{name}" for t in tables() for name, f in t.model_fields.items() if not f.description]
    assert silent == []


def test_nothing_is_explained_that_is_not_there() -> None:
    strangers = [f"{t.__name__}.{name}" for t in tables() for name in t.MEANING if name not in t.model_fields]
    assert strangers == []


def test_every_key_says_what_it_accepts() -> None:
    assert [key.name for key in KEYS if not key.accepted] == []


def test_every_table_and_kind_is_there() -> None:
    assert {key.path[0] for key in KEYS} == {*Config.model_fields, "job", "cluster", "sweep", "search"}
    for name, kinds in (("topology", TOPOLOGY_KINDS), ("workload", WORKLOAD_KINDS)):
        assert {kind for key in KEYS if key.path[0] == name for kind in key.kinds} == set(kinds)


ALONE = [
    key
    for key in KEYS
    if key.path[0] == "network" and key.default not in ("", "not given", "{}", "[]")
    and key.path[1] not in ("ecn_rate", "path", "link_event", "ns3", "transport")
]  # fmt: skip


@pytest.mark.parametrize("key", ALONE, ids=lambda key: key.name)
def test_a_default_as_it_is_written_is_the_default(key) -> None:
    """For the tables of [network] that need nothing else beside them."""
    base = {
        "topology": {"kind": "fat-tree", "k": 4},
        "workload": {"kind": "collectives", "collective": [{"name": "a", "operation": "all-reduce", "size": "4MB"}]},
    }
    value = tomllib.loads(f"value = {key.default}")["value"]
    inner = {key.path[-1]: value}
    network = inner if len(key.path) == 2 else {key.path[1]: inner}
    assert config_from_dict(base | {"network": network}).network == config_from_dict(base).network


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("network.payload", ["means     of a full data packet", 'default   "1000B"', "unit      a size"]),
        ("[network.buffer] reserve", ["[network.buffer] reserve", 'default   "4096B"']),
        ("theta", ["[wormhole.paper] theta", "accepted  a number, more than 0, less than 1", "default   0.05"]),
        ("mode", ['accepted  "off", "exact", "auto" or "flow"', 'default   "off"']),
        ("topology.spine_rate", ["(kind leaf-spine)", "(kind roft, dual-plane)", "default   as nic_rate"]),
        ("workload.devices.mine.memory", ["[workload.devices.NAME] memory", "(kind collectives, training)"]),
        ("peak_flops", ["unit      operations per second", 'default   "312Tflops"']),
        ("workload.load", ["accepted  a number, more than 0, at most 1", "default   none: it has to be given"]),
        ("network.hpcc.min_rate", ['default   "1Gbps"', "models/congestion/hpcc.py, Hpcc"]),
        ("wormhole", ["wormhole.mode ", "wormhole.paper.stable_rounds "]),
        ("network.pfc.enabled", ['default   "auto"', 'accepted  "auto", true or false']),
    ],
)
def test_explain_prints_what_a_key_is(text: str, expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", text]) == 0
    printed = capsys.readouterr().out
    assert [part for part in expected if part not in printed] == []


@pytest.mark.parametrize(
    ("text", "nearest"), [("seeed", "simulation.seed"), ("network.paylod", "network.payload"), ("xyzzy", "topology")]
)
def test_an_unknown_key_names_the_nearest(text: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"explain {text}: no such key. Accepted: .*{nearest}"):
        find(text)


def test_without_a_key_the_tables_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(Config.model_fields) + 4  # job, cluster, sweep, search


def test_the_sources_exist() -> None:
    root = Path(__file__).resolve().parents[2]
    assert all((root / key.source.split(",")[0]).exists() for key in KEYS)


@pytest.mark.parametrize("table", LAW_TABLES)
def test_every_built_in_control_can_be_explained(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its parameters, with it; also of one that has none."""
    assert main(["explain", f"network.{table}"]) == 0
    printed = capsys.readouterr().out
    assert [key.name for key in control_keys(table) if key.name not in printed] == []
    assert bool(control_keys(table)) == (table not in ("fixed-window", "none"))
