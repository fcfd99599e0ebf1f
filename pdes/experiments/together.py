"""Which experiments may run in one loop, see `models.network.experiments`, and which of them together."""

from typing import Any

from pdes.scenario import Scenario

MOST_HOPS = 2_000_000  # packet-hops; what a larger one takes to build is little, and others wait for it
MOST_NODES = 8192  # of all in one loop: beyond, their tables are too large for the caches


def why_alone(s: Scenario) -> str:
    """Why a scenario has to run by itself, "" if it need not."""
    config, p, plan = s.config, s.parameters, s.plan
    whys = {
        "fast-forwarding": config.wormhole.mode != "off",
        "limited buffers, loss recovery or ns-3's transport": bool(p.buffer or p.transport or p.ns3),
        "links that lose packets or change": p.loss_probability is not None or bool(p.link_changes),
        "switches that choose the ways": p.routing is not None,
        "several priorities": p.n_queue > 2,
        "switches that draw what they tell of ports": "pint" in p.law.needs,
        "samples": config.output.sample_interval_ps is not None or p.rtt_flow >= 0,
        "checkpoints": config.checkpoint.every_ps is not None,
        "a trace, jobs, or queue pairs that share messages": bool(plan.graph or plan.jobs or plan.n_part > 1),
        "its size": int(s.port_hops.sum()) > MOST_HOPS,
    }
    return next((why for why, is_so in whys.items() if is_so), "")


def kind_of(s: Scenario) -> tuple[Any, ...]:
    """What experiments in one loop have in common."""
    p, output = s.parameters, s.config.output
    return p.law, p.payload_bytes, p.header_bytes, p.ack_bytes, p.scheduler, p.queue_weight, output.flows, output.tasks
