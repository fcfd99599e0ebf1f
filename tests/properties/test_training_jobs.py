"""What holds of every training job that is fast-forwarded: it ends, as it does packet by packet, and where a look is
made, in a compiled round or in Python, as on several ranks, changes nothing."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from models.network.skip.fast_forward import FastForward
from pdes.config import config_from_dict
from pdes.engine.exchange import World
from pdes.result import Result
from pdes.simulation import prepare
from pdes.simulation import run as run_prepared

LAWS = ("dctcp", "dcqcn", "hpcc", "timely")
HOSTS_PER_SERVER = (2, 4, 8)
MOST_GPUS = 64
Tables = dict[str, Any]


@st.composite
def fabrics(draw: st.DrawFn) -> Tables:
    """Two leaves without servers, or rails; up to MOST_GPUS."""
    rates = st.sampled_from(["100Gbps", "400Gbps"])
    per_server, servers = draw(st.sampled_from(HOSTS_PER_SERVER)), draw(st.sampled_from([2, 4, 8]))
    if draw(st.booleans()):
        return {
            "kind": "leaf-spine", "leaves": 2, "spines": draw(st.sampled_from([1, 2, 4])),
            "hosts_per_leaf": per_server * servers // 2, "host_rate": draw(rates), "spine_rate": draw(rates),
            "host_delay": "500ns", "spine_delay": "1us",
        }  # fmt: skip
    return {
        "kind": "roft", "gpus": per_server * servers, "gpus_per_server": per_server,
        "servers_per_rail_switch": draw(st.sampled_from([2, servers])), "nic_rate": draw(rates),
        "spine_rate": draw(rates), "nvlink": draw(st.sampled_from(["packets", "none"])),
    }  # fmt: skip


@st.composite
def jobs(draw: st.DrawFn) -> Tables:
    """A small model, laid out at random over all GPUs of a fabric, with one mode or another."""
    topology = draw(fabrics())
    n_gpu = topology.get("gpus", 2 * topology.get("hosts_per_leaf", 0))
    split = st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4])).filter(
        lambda sizes: n_gpu % (sizes[0] * sizes[1]) == 0
    )
    tp, pp = draw(split)
    dp, vpp = n_gpu // (tp * pp), draw(st.integers(1, 2)) if pp > 1 else 1
    hidden = draw(st.sampled_from([256, 512]))
    model = {
        "layers": pp * vpp * draw(st.integers(1, 2)), "hidden": hidden, "heads": 16, "ffn": 4 * hidden,
        "vocabulary": draw(st.sampled_from([1024, 32000])), "sequence": draw(st.sampled_from([256, 512])),
    }  # fmt: skip
    return {
        "topology": topology,
        "network": {
            "congestion_control": draw(st.sampled_from(LAWS)), "payload": draw(st.sampled_from(["1000B", "4096B"])),
        },
        "workload": {
            "kind": "training", "global_batch": dp * pp * draw(st.integers(1, 2)), "microbatch": 1, "model": model,
            "parallel": {"tp": tp, "dp": dp, "pp": pp, "vpp": vpp}, "compute": {"gpu": "h100"},
            "zero": draw(st.integers(0, 2)), "sequence_parallel": draw(st.booleans()) and tp > 1,
        },
        "simulation": {"iterations": draw(st.integers(1, 2))},
        "wormhole": draw(modes()),
    }  # fmt: skip


@st.composite
def modes(draw: st.DrawFn) -> Tables:
    """Everything that may be skipped, mostly."""
    exact = draw(st.sampled_from([["periodic", "replay"], ["periodic", "replay"], ["replay"], ["periodic"]]))
    if exact == ["periodic"]:
        return {"mode": "exact", "paper": {"forecasts": exact}}
    lone = draw(st.sampled_from([["alone"], ["alone"], []]))
    forecasts = [*exact, "similar", *lone, *(draw(st.sampled_from([["shares"], ["shares"], []])) if lone else [])]
    return {"mode": "auto", "tolerance": draw(st.sampled_from([0.01, 0.05])), "paper": {"forecasts": forecasts}}


def outcome(tables: Tables) -> tuple[list[int], list[Any]]:
    """(times of iterations, columns of the table of flows). SimError if the job does not come to its end."""
    with TemporaryDirectory() as folder:
        config = config_from_dict(tables | {"output": {"dir": f"{folder}/results"}}, Path(folder) / "job.toml")
        assert run_prepared(prepare(config, quiet=True), World(), quiet=True, heeds_signals=False) == 0
        result = Result(Path(folder) / "results")
        return list(result.summary["iteration_time_ps"]), [column.to_pylist() for column in result.flows.columns]


ALL = {"mode": "auto", "tolerance": 0.01}
SPINES = {
    "kind": "leaf-spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 8, "host_rate": "100Gbps",
    "spine_rate": "100Gbps", "host_delay": "500ns", "spine_delay": "1us",
}  # fmt: skip


def job(topology: Tables, parallel: Tables, model: Tables, batch: int, **others: Any) -> Tables:
    """One of `jobs`, with DCTCP."""
    workload = {
        "kind": "training", "global_batch": batch, "microbatch": 1, "compute": {"gpu": "h100"}, "zero": 1,
        "parallel": {"pp": 1} | parallel, "model": {"heads": 16, "vocabulary": 32000} | model,
    }  # fmt: skip
    tables = {
        "topology": topology, "network": {"congestion_control": "dctcp", "payload": "1000B"}, "workload": workload,
        "wormhole": ALL,
    }  # fmt: skip
    return tables | others


EIGHT_REPLICAS = job(
    SPINES, {"tp": 2, "dp": 8}, {"layers": 2, "hidden": 512, "ffn": 2048, "sequence": 512}, 16
)  # fmt: skip
EIGHT_WAYS = job(
    SPINES | {"spines": 2, "host_rate": "400Gbps", "spine_rate": "400Gbps"}, {"tp": 8, "dp": 2},
    {"layers": 1, "hidden": 256, "ffn": 1024, "sequence": 512}, 4, simulation={"iterations": 2},
)  # fmt: skip


@settings(max_examples=20)
@given(jobs())
@example(EIGHT_REPLICAS)
@example(EIGHT_WAYS)
def test_a_job_ends_alike_wherever_looks_are_made(tables: Tables) -> None:
    quickly = outcome(tables)
    with patch.object(FastForward, "round_looks", lambda *_: None):
        assert outcome(tables) == quickly
    event(f"forecasts: {tables['wormhole'].get('paper')}")


def test_a_job_ends_whose_flows_go_on_packet_by_packet_as_something_is_judged_steady() -> None:
    """What a round had judged steady was frozen, though flow level had just taken it over: it never ended."""
    fabric = SPINES | {"spines": 4, "hosts_per_leaf": 16}
    model = {"layers": 8, "hidden": 512, "ffn": 2048, "sequence": 4096, "vocabulary": 1024}
    tables = job(fabric, {"tp": 2, "dp": 4, "pp": 4, "vpp": 2}, model, 64, wormhole=ALL | {"tolerance": 0.05})
    (time_ps,), columns = outcome(tables)
    assert time_ps > 0 and all(None not in column for column in columns[:-1])


def test_what_is_posted_as_its_host_stops_is_not_sent_before_and_what_waits_in_turn_is_no_measure() -> None:
    """Messages that a host posts at the instant at which it is stopped left as soon as its port had been idle; and
    three that were posted at once counted as having taken three times as long each."""
    fabric = SPINES | {"spines": 4, "hosts_per_leaf": 32}
    model = {"layers": 1, "hidden": 512, "ffn": 2048, "sequence": 2048}
    tables = job(
        fabric,
        {"tp": 8, "dp": 8},
        model,
        8,
        wormhole=ALL | {"tolerance": 0.02, "paper": {"forecasts": ["periodic", "replay", "similar", "alone"]}},
    )
    tables["network"] = {"congestion_control": "hpcc", "payload": "4096B"}
    tables["workload"]["sequence_parallel"] = True
    (time_ps,), _ = outcome(tables)
    (full_ps,), _ = outcome(tables | {"wormhole": {"mode": "off"}})
    assert time_ps == pytest.approx(full_ps, rel=0.01)  # 0.5 %; 32 % with times of messages that waited in turn
