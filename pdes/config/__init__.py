"""The config file: its schema, its checks, and how it is read. Knows no model; everything in it is plain ints and text.

Quantities are text with a unit in the file and ints in ps, bytes or bit/s here; names of attributes carry the unit.
"""

from pdes.config.load import config_from_dict, load_config
from pdes.config.root import Config
from pdes.config.sections import DctcpConfig, NetworkConfig, PartitionConfig, SimulationConfig
from pdes.config.topology import FatTreeConfig, LeafSpineConfig, RoftConfig, TopologyConfig, TopologyFileConfig
from pdes.config.workload import CollectiveConfig, CollectivesConfig, FlowsConfig, TrainingConfig, WorkloadConfig

__all__ = [
    "CollectiveConfig",
    "CollectivesConfig",
    "Config",
    "DctcpConfig",
    "FatTreeConfig",
    "FlowsConfig",
    "LeafSpineConfig",
    "NetworkConfig",
    "PartitionConfig",
    "RoftConfig",
    "SimulationConfig",
    "TopologyConfig",
    "TopologyFileConfig",
    "TrainingConfig",
    "WorkloadConfig",
    "config_from_dict",
    "load_config",
]
