"""What each mode of [wormhole] would cost for a config, and how far off it is expected to be: lines of a plan."""

from models.network.skip.make_fast_forward import why_not
from pdes.config import Config
from pdes.errors import ConfigError
from pdes.scenario import Scenario
from pdes.scenario.flow_numbers import FlowNumbers, flow_numbers, shipped_calibrations
from pdes.scenario.network import without_packets
from pdes.scenario.skipping import ALL, EXACT, MEASURED
from pdes.units import format_duration

HOP_RATE = 30e6  # packet-hops per second and core, see bench/packet_hops.py
EVENT_RATE = 1e6  # events per second and core in flow mode, a guess: the summary of a run says its own


def mode_facts(scenario: Scenario) -> list[tuple[str, str]]:
    """A line for each mode. Seconds are of one core, guesses to compare."""
    hops, mode = int(scenario.port_hops.sum()), scenario.config.wormhole.mode
    lines = {
        "off": f"{seconds_text(hops / HOP_RATE)}; every packet",
        "exact": _skipping(scenario, EXACT, hops),
        "auto": _skipping(scenario, ALL, hops),
        "flow": _flow(scenario),
    }
    return [(f'mode "{name}"', text + (" (chosen)" if name == mode else "")) for name, text in lines.items()]


def _skipping(scenario: Scenario, forecasts: tuple[str, ...], hops: int) -> str:
    """By what was measured of jobs with such a control."""
    p, config = scenario.parameters, scenario.config
    if p.flow is None and (why := why_not(p)):
        return f"{seconds_text(hops / HOP_RATE)}, as nothing can be skipped: {why}"
    if config.workload.kind != "training":
        return f"at most {seconds_text(hops / HOP_RATE)}; not measured with {config.workload.kind}"
    kind = "mixtures of experts" if any("expert" in name for name in scenario.plan.facts) else "dense jobs"
    rows = MEASURED[forecasts, config.network.congestion_control == "hpcc"]
    row = next((row for row in rows if row.job == kind), rows[-1])
    fewest = float(row.fewer.split(" to ")[0].replace(",", ""))
    least = seconds_text(hops / HOP_RATE / fewest)
    return f"{least} besides what deciding takes, off by {row.off}, as measured in {row.job} ({row.fewer} times fewer)"


def _flow(scenario: Scenario) -> str:
    config = scenario.config
    try:
        without_packets(config, scenario.parameters)
    except ConfigError as error:
        return f"not here: {error.where} {error.found.split(', which')[0]}"
    return f"{flow_mode_time(scenario)}, {_error(config, scenario)}"


def flow_mode_time(scenario: Scenario) -> str:
    """Of the loop: a message is two events, a task one."""
    return seconds_text((2 * scenario.plan.n_flow + scenario.plan.n_task) / EVENT_RATE)


def _error(config: Config, scenario: Scenario) -> str:
    """Of completion times, where the control was calibrated."""
    if config.wormhole.mode == "flow" or scenario.control.law.name in shipped_calibrations():
        numbers: FlowNumbers = flow_numbers(config)
        if numbers.row:
            return f"off by {100 * numbers.row['error']:.2g} % on average where {numbers.control} was calibrated"
    return "how far off is not known: pdes-sim calibrate --flow measures it"


def seconds_text(seconds: float) -> str:
    """How long, in words."""
    return format_duration(round(seconds * 1e12))
