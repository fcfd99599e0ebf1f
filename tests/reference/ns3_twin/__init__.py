"""ns-3's RoCE model (HPCC lineage) in plain Python, written for reading: what `compatibility = "ns3-hpcc"` must equal.

    simulate(read_case(folder)).flows                  ns-3's own answer, to the nanosecond
    simulate(read_case(folder), tie="engine").ports    the same model with the engine's order of simultaneous events

It shares the definition of the engine's random numbers with `pdes.engine` and nothing else. Every event is one heap
entry; a million events take 2 to 3 seconds. Not modelled: HPCC-PINT, per-hop HPCC rates, parallel links, hosts with
several NICs.
"""

from reference.ns3_twin.case import Ns3Case, Ns3Config, Ns3Flow, Ns3Link
from reference.ns3_twin.files import read_case, write_case
from reference.ns3_twin.results import FlowRow, Ns3Result, PortRow
from reference.ns3_twin.simulation import simulate

__all__ = [
    "FlowRow",
    "Ns3Case",
    "Ns3Config",
    "Ns3Flow",
    "Ns3Link",
    "Ns3Result",
    "PortRow",
    "read_case",
    "simulate",
    "write_case",
]
