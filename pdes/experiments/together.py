"""Which experiments may run in one loop, see `models.network.experiments`, and which of them together."""

from typing import Any

from pdes.scenario import Scenario

MOST_HOPS = 2_000_000  # packet-hops; what a larger one takes to build is little, and others wait for it
MOST_NODES = 8192  # of all in one loop: beyond, their tables are too large for the caches


def why_alone(s: Scenario) -> str:
    """Why a scenario has to run by itself, "" if it need not."""
    config, p, plan = s.config, s.parameters, s.plan
    has_stop = config.simulation.stop_time_ps is not None
    whys = {
        "fast-forwarding": config.wormhole.mode != "off",
        "ns-3's transport": p.ns3 is not None,
        "links that change": bool(p.link_changes),
        "switches that choose the ways": p.routing is not None,
        "a stop time, at which nobody knows whether queues wait for each other": has_stop and config.network.has_pfc,
        "switches that draw what they tell of ports": "pint" in p.law.needs,
        "samples": config.output.sample_interval_ps is not None or p.rtt_flow >= 0,
        "checkpoints": config.checkpoint.every_ps is not None,
        "a trace, jobs, or queue pairs that share messages": bool(plan.graph or plan.jobs or plan.n_part > 1),
        "its size": int(s.port_hops.sum()) > MOST_HOPS,
    }
    return next((why for why, is_so in whys.items() if is_so), "")


def kind_of(s: Scenario) -> tuple[Any, ...]:
    """What experiments in one loop have in common."""
    p, output, b = s.parameters, s.config.output, s.parameters.buffer
    buffer = None if b is None else (b.reserve_bytes, b.pfc, b.pfc_bytes, b.resume_offset_bytes)
    packets = p.payload_bytes, p.header_bytes, p.ack_bytes
    queues = p.n_queue, p.scheduler, p.queue_weight, p.loss_probability is None
    return p.law, packets, queues, buffer, p.transport, output.flows, s.plan.keeps_tasks
