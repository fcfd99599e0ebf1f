"""Random small networks as users would configure them, run through the whole scenario."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from models.network.model import LogicalProcesses, NetworkModel
from models.network.skip.make_fast_forward import Wanted, make_fast_forward
from models.network.state.switch_state import DROP_BUFFER
from pdes.config import config_from_dict
from pdes.engine.exchange import World
from pdes.engine.round import make_loop, run_rounds
from pdes.scenario import Scenario, build_scenario
from pdes.skipping.audit import Audit

LAWS = ("dctcp", "dcqcn", "hpcc", "hpcc-pint", "timely", "swift", "fixed-window", "none", "nscc")
POLICIES = ("ecmp", "weighted", "spray", "flowlet", "adaptive")
N_HOST = 8
Flow = tuple[int, int, int, int, int]
"""(source, destination, bytes, start in ps, priority)"""


@dataclass
class Outcome:
    """What is left of a run: the scenario, the model at its end, and the flow rows by id."""

    scenario: Scenario
    model: NetworkModel
    rows: np.ndarray
    delivered_ps: dict[int, int]  # by id

    @property
    def dropped(self) -> int:
        """Packets for which a buffer had no room."""
        return int(self.model.state.buffers.drops[:, DROP_BUFFER].sum())


def scenario_of(tables: dict[str, Any], flows: list[Flow]) -> Scenario:
    """The scenario of a flow list."""
    with tempfile.TemporaryDirectory() as folder:
        lines = ["src,dst,size_bytes,start_ps,priority", *(",".join(map(str, flow)) for flow in flows)]
        (Path(folder) / "flows.csv").write_text("\n".join(lines) + "\n")
        whole = tables | {"workload": {"kind": "flows", "file": "flows.csv"} | tables.get("workload", {})}
        return build_scenario(config_from_dict(whole, Path(folder) / "case.toml"))


def least_buffer_bytes(tables: dict[str, Any], flows: list[Flow]) -> int:
    """What reserves and headrooms take of the buffer of the switch with most ports."""
    s = scenario_of(tables | {"network": tables["network"] | {"buffer": {"size": "1GB"}}}, flows)
    buffer = s.parameters.buffer
    assert buffer is not None
    aside = (buffer.headroom_bytes + buffer.reserve_bytes) * (s.parameters.n_queue - 1)
    return int(np.bincount(s.topology.port_dst, weights=aside)[s.topology.is_switch].max())


def run(
    tables: dict[str, Any], flows: list[Flow], threshold: str | None = None,
    check: Callable[[NetworkModel], None] | None = None,
) -> Outcome:  # fmt: skip
    """Run a flow list on one rank to its end. threshold: another cut into LPs. check: called at decision instants."""
    s = scenario_of(tables if threshold is None else tables | {"partition": {"delay_threshold": threshold}}, flows)
    found: list[np.ndarray] = []
    delivered_ps: dict[int, int] = {}

    def sink(flow: np.ndarray, arrival: np.ndarray, _task: np.ndarray, _spent: np.ndarray) -> None:
        found.append(flow.copy())
        delivered_ps.update(map(tuple, arrival.tolist()))

    model = NetworkModel(
        s.topology,
        s.paths,
        s.plan,
        s.max_window_bytes,
        LogicalProcesses(s.lp_of_node, np.zeros(s.n_lp, np.int64), s.lookahead_ps),
        World(),
        s.parameters,
        sink,
    )
    share = s.config.wormhole.audit
    if s.config.wormhole.mode != "off":
        model.fast_forward = make_fast_forward(
            s.topology,
            model,
            s.parameters,
            World(),
            s.path_rtt_ps,
            s.stop_ps,
            Wanted(
                mode=s.config.wormhole.skips,
                tolerance=s.config.wormhole.wave_tolerance,
                audit=Audit(share, s.parameters.seed, s.parameters.payload_bytes) if share else None,
            ),
        )
    if check is not None:
        look = model.look
        model.look = lambda horizon_ps: _checked(look(horizon_ps), model, check)  # type: ignore[method-assign]
    run_rounds(model, make_loop(s.lookahead_ps, next_look_ps=model.first_look_ps()), model.exchange)
    model.flush()
    if model.fast_forward is not None:
        model.fast_forward.settle(model.state)
    rows = np.concatenate(found)
    return Outcome(s, model, rows[np.lexsort((rows[:, 1], rows[:, 0]))], delivered_ps)


def _checked(next_ps: int, model: NetworkModel, check: Callable[[NetworkModel], None]) -> int:
    check(model)
    return next_ps


@st.composite
def topologies(draw: st.DrawFn) -> dict[str, Any]:
    """Eight hosts on a leaf-spine of unequal rates and delays, with one or two spines."""
    rate = st.sampled_from(["25Gbps", "40Gbps", "100Gbps"])
    return {
        "kind": "leaf-spine",
        "leaves": 2,
        "spines": draw(st.integers(1, 3)),
        "hosts_per_leaf": N_HOST // 2,
        "host_rate": draw(rate),
        "spine_rate": draw(rate),
        "host_delay": draw(st.sampled_from(["100ns", "1us"])),
        "spine_delay": draw(st.sampled_from(["300ns", "1us", "5us"])),
    }


@st.composite
def flow_lists(draw: st.DrawFn, most_bytes: int = 60_000, least_bytes: int = 1) -> list[Flow]:
    """A few flows, often into the same host and often at the same instant, of up to three priorities."""
    n_flow = draw(st.integers(1, 10))
    to_one = draw(st.booleans())
    flows = []
    for _ in range(n_flow):
        dst = 0 if to_one else draw(st.integers(0, N_HOST - 1))
        src = draw(st.integers(0, N_HOST - 1).filter(lambda host, dst=dst: host != dst))
        start_ps = draw(st.sampled_from([0, 0, 1_000_000, 3_333_333]))
        flows.append(
            (src, dst, draw(st.integers(least_bytes, most_bytes)), start_ps, draw(st.sampled_from([3, 3, 5, 0])))
        )
    return flows
