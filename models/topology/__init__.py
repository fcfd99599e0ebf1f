"""Topologies: builders and file readers, shortest-path routing, and what follows from a path alone."""

from models.topology.closed_form import ideal_delivery_ps, ideal_fct_ps, tx_ps
from models.topology.fat_tree import fat_tree
from models.topology.graph import Topology, make_topology
from models.topology.leaf_spine import leaf_spine
from models.topology.ns3_file import read_ns3_next_hops, read_ns3_topology
from models.topology.rail_optimised import rail_optimised
from models.topology.routing import Paths, max_base_rtt, path_base_rtt, route_pairs
from models.topology.three_tier import three_tier

__all__ = [
    "Paths",
    "Topology",
    "fat_tree",
    "ideal_delivery_ps",
    "ideal_fct_ps",
    "leaf_spine",
    "make_topology",
    "max_base_rtt",
    "path_base_rtt",
    "rail_optimised",
    "read_ns3_next_hops",
    "read_ns3_topology",
    "route_pairs",
    "three_tier",
    "tx_ps",
]
