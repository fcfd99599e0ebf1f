"""The config file: its schema, its checks, and how it is read. Knows no model; everything in it is plain ints and text.

Quantities are text with a unit in the file and ints in ps, bytes or bit/s here; names of attributes carry the unit.
"""

from pdes.config.load import config_from_dict, load_config
from pdes.config.root import Config
from pdes.config.tables.devices import DeviceConfig
from pdes.config.tables.network import (
    ECN_REFERENCE_RATE_BPS,
    LAW_TABLES,
    BufferConfig,
    NetworkConfig,
    Ns3Config,
    SchedulerConfig,
    TransportConfig,
)
from pdes.config.tables.sections import PartitionConfig, SimulationConfig
from pdes.config.tables.topology import FatTreeConfig, LeafSpineConfig, RoftConfig, TopologyConfig, TopologyFileConfig
from pdes.config.tables.workload import CollectiveConfig, CollectivesConfig, FlowsConfig, TrainingConfig, WorkloadConfig

__all__ = [
    "ECN_REFERENCE_RATE_BPS",
    "LAW_TABLES",
    "BufferConfig",
    "CollectiveConfig",
    "CollectivesConfig",
    "Config",
    "DeviceConfig",
    "FatTreeConfig",
    "FlowsConfig",
    "LeafSpineConfig",
    "NetworkConfig",
    "Ns3Config",
    "PartitionConfig",
    "RoftConfig",
    "SchedulerConfig",
    "SimulationConfig",
    "TopologyConfig",
    "TopologyFileConfig",
    "TrainingConfig",
    "TransportConfig",
    "WorkloadConfig",
    "config_from_dict",
    "load_config",
]
