"""Claims about what a plan says of each mode: what it costs, and how far off it is expected to be."""

from pathlib import Path

from pdes.config import load_config
from pdes.plan_modes import EVENT_RATE, HOP_RATE, mode_facts
from pdes.scenario import Scenario, build_scenario
from pdes.units import format_duration

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MODES = ['mode "off"', 'mode "exact"', 'mode "auto"', 'mode "flow"']


def modes(name: str, *sets: str) -> tuple[Scenario, dict[str, str]]:
    scenario = build_scenario(load_config(EXAMPLES / f"{name}.toml", list(sets)))
    found = dict(mode_facts(scenario))
    assert list(found) == MODES
    return scenario, found


def test_each_mode_of_a_training_job_has_its_cost_and_what_was_measured() -> None:
    scenario, found = modes("quickstart", "wormhole.mode=auto")
    hops, plan = int(scenario.port_hops.sum()), scenario.plan
    assert found[MODES[0]] == f"{format_duration(round(hops / HOP_RATE * 1e12))}; every packet"
    assert found[MODES[1]].endswith("off by 0, as measured in dense jobs (881 to 1,566 times fewer)")
    assert found[MODES[2]].endswith("times fewer) (chosen)")
    n_event = 2 * plan.n_flow + plan.n_task
    assert found[MODES[3]].startswith(f"{format_duration(round(n_event / EVENT_RATE * 1e12))}, off by ")
    assert "on average where dctcp was calibrated" in found[MODES[3]]


def test_experts_with_hpcc_have_their_own_rows() -> None:
    _, found = modes("moe-8x7b-64", "wormhole.mode=flow")
    assert "off by 0.17 to 4.8 % (chaos alone: 2.2 to 5.0 %), as measured in mixtures of experts" in found[MODES[1]]
    assert "where hpcc was calibrated" in found[MODES[3]] and found[MODES[3]].endswith("(chosen)")


def test_what_was_not_measured_or_cannot_be_is_said() -> None:
    _, found = modes("incast")
    assert found[MODES[1]].startswith("at most ") and found[MODES[1]].endswith("not measured with flows")
    _, found = modes("incast", "network.routing.policy=flowlet")
    assert found[MODES[1]].endswith("as nothing can be skipped: switches choose a way for each packet")
    assert found[MODES[3]] == 'not here: [network.routing] policy is "flowlet"'
    _, found = modes("incast", f"network.congestion_control={EXAMPLES / 'my_cc.py'}:Aimd")
    assert found[MODES[3]].endswith("pdes-sim calibrate --flow measures it")
