"""The whole config: one attribute per table, and where its file lies."""

from pathlib import Path
from typing import Any

from pydantic import PrivateAttr

from pdes.config.fields import Table
from pdes.config.network import NetworkConfig
from pdes.config.sections import CheckpointConfig, OutputConfig, PartitionConfig, SimulationConfig, WormholeConfig
from pdes.config.topology import TopologyConfig
from pdes.config.workload import WorkloadConfig


class Config(Table):
    """A checked config: immutable, plain ints (ps, bytes, bit/s), picklable. Made by `load_config`."""

    simulation: SimulationConfig = SimulationConfig()
    topology: TopologyConfig
    network: NetworkConfig = NetworkConfig()
    workload: WorkloadConfig
    partition: PartitionConfig = PartitionConfig()
    wormhole: WormholeConfig = WormholeConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    output: OutputConfig = OutputConfig()
    _source: Path = PrivateAttr(default=Path("config.toml"))

    @property
    def source(self) -> Path:
        """The file that the config came from."""
        return self._source

    def input_path(self, name: str) -> Path:
        """A file that the config names: relative names are relative to the config's folder."""
        return self._source.parent / name

    def resolved(self) -> dict[str, Any]:
        """What determines the result, defaults included: plain JSON values, keys sorted and carrying units.

        Output, checkpoints, placement, its re-balancing and the memo's file are left out: all but the last never change
        a result, and of that it is what was read that may. File names are as written. The caller replaces
        partition.delay_threshold_ps, null for "auto", with the threshold that it resolves to.
        """
        left_out = {
            "output": True, "checkpoint": True, "partition": {"placement", "rebalance", "rebalance_interval_ps"},
            "wormhole": {"memo", "memo_limit_bytes"},
        }  # fmt: skip
        tables = self.model_dump(mode="json", exclude=left_out)
        return _sorted(tables)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(element) for element in value] if isinstance(value, list) else value
