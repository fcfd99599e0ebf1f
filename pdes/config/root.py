"""The whole config: one attribute per table, and where its file lies."""

from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr

from pdes.config.calibration import Alignment
from pdes.config.places import line_of, path_of
from pdes.config.tables.fields import Meaning, Table
from pdes.config.tables.jobs import InputConfig, JobsConfig
from pdes.config.tables.network import NetworkConfig
from pdes.config.tables.sections import (
    CheckpointConfig,
    OutputConfig,
    PartitionConfig,
    RunConfig,
    SimulationConfig,
)
from pdes.config.tables.topology import TopologyConfig
from pdes.config.tables.workload import WorkloadConfig
from pdes.config.wormhole.table import WormholeConfig


class Config(Table):
    """A checked config: immutable, plain ints (ps, bytes, bit/s), picklable. Made by `load_config`."""

    simulation: SimulationConfig = SimulationConfig()
    topology: TopologyConfig
    network: NetworkConfig = NetworkConfig()
    workload: WorkloadConfig | JobsConfig
    partition: PartitionConfig = PartitionConfig()
    wormhole: WormholeConfig = WormholeConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    run: RunConfig = RunConfig()
    output: OutputConfig = OutputConfig()
    MEANING: ClassVar[Meaning] = {
        "simulation": "what is drawn, how often, and when to stop",
        "topology": "the nodes and links of the cluster, by kind",
        "network": "packets, congestion control, marking, buffers, pauses, routing, loss",
        "workload": "what is sent, by kind; or [[job]], several of them",
        "partition": "how the cluster is cut into logical processes, and placed on ranks",
        "wormhole": "fast-forwarding: what need not be simulated",
        "checkpoint": "when to save the state of a run; never changes a result",
        "run": "what the machine may be asked for; never changes a result",
        "output": "where results go, and which there are",
    }
    _source: Path = PrivateAttr(default=Path("config.toml"))
    _lines: dict[tuple[str | int, ...], int] = PrivateAttr(default_factory=dict)
    _warnings: list[str] = PrivateAttr(default_factory=list)
    _alignment: Alignment | None = PrivateAttr(default=None)

    @property
    def source(self) -> Path:
        """The file that the config came from."""
        return self._source

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lines for people about values that are accepted but may not be what was meant."""
        return tuple(self._warnings)

    @property
    def alignment(self) -> Alignment | None:
        """With production, of iteration times; from the file of `simulation.calibration`."""
        return self._alignment

    def written_to(self, directory: str | Path) -> Self:
        """The same config with another result folder."""
        return self._with(output=self.output.model_copy(update={"dir": str(directory)}))

    def of_job(self, workload: WorkloadConfig | InputConfig, iterations: int, seed: int) -> Self:
        """The same with one job's workload as the only one."""
        simulation = self.simulation.model_copy(update={"iterations": iterations, "seed": seed})
        return self._with(workload=workload, simulation=simulation)

    def with_workload(self, workload: WorkloadConfig | JobsConfig) -> Self:
        """The same with other work."""
        return self._with(workload=workload)

    def with_tables(self, **tables: Table) -> Self:
        """The same with other tables."""
        return self._with(**tables)

    def _with(self, **tables: Table) -> Self:
        config = self.model_copy(update=tables)
        config._source, config._lines, config._warnings = self._source, self._lines, self._warnings
        config._alignment = self._alignment
        return config

    def place(self, key: str) -> str:
        """Where a key is, for an error: "config.toml:7: [network] window". key: "[network] window"."""
        path = path_of(key)
        line = line_of(path, self._lines) if path else None
        return f"{self._source}:{line}: {key}" if line else f"{self._source}: {key}"

    def input_path(self, name: str) -> Path:
        """A file that the config names: relative names are relative to the config's folder."""
        return self._source.parent / name

    def resolved(self) -> dict[str, Any]:
        """What determines the result, defaults included: plain JSON values, keys sorted and carrying units.

        Output, checkpoints, limits of the machine, placement, re-balancing and the memo's file are left out: all but
        the last never change a result, and of that it is what was read that may. File names are as written. The caller
        replaces partition.delay_threshold_ps, null for "auto", with the threshold that it resolves to.
        """
        left_out = {
            "output": True, "checkpoint": True, "run": True,
            "partition": {"placement", "start", "rebalance", "rebalance_interval_ps"},
            "wormhole": {"memo", "memo_limit_bytes"},
        }  # fmt: skip
        tables = self.model_dump(mode="json", exclude=left_out)
        return _sorted(tables)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(element) for element in value] if isinstance(value, list) else value
