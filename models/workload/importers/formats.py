"""Which reader reads what: the formats of traces by name."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models.workload.importers.chakra import Device, rank_files, read_chakra
from models.workload.importers.goal_binary import is_goal_binary, n_binary_rank, read_goal_binary
from models.workload.importers.goal_text import n_text_rank, read_goal_text
from models.workload.importers.htsim_traffic import n_node, read_connections
from models.workload.importers.layer_loops import n_layer_gpu, read_layers
from models.workload.importers.profile import n_profile_rank, read_profile
from models.workload.trace.checks import checked
from models.workload.trace.graph import Leniency, TraceGraph
from pdes.errors import ConfigError

FORMATS = ("chakra", "goal", "simai", "astra-sim-text", "htsim", "profile")
CHAKRA, GOAL, SIMAI, ASTRA_TEXT, HTSIM, PROFILE = FORMATS


@dataclass(frozen=True)
class TraceSource:
    """What is to be read. gpus: of a format that does not say how many; None: the file's or the cluster's."""

    format: str
    path: Path
    communicators: Path | None = None
    gpus: int | None = None
    tolerant: bool = False
    device: Device = Device(312 * 10**12, 2 * 10**12)


def read_trace(source: TraceSource, n_host: int) -> tuple[TraceGraph, np.ndarray]:
    """A trace that can run, and an order of its nodes. ConfigError names file, line or byte, rank and node."""
    leniency = Leniency(source.tolerant)
    return checked(_read(source, n_host, leniency), leniency)


def n_rank(source: TraceSource) -> int | None:
    """How many ranks a trace has, without its nodes; None: it leaves that open. ConfigError as of a reader."""
    path = source.path
    if source.format == CHAKRA:
        return len(rank_files(path))
    if source.format == GOAL:
        return n_binary_rank(path) if is_goal_binary(path) else n_text_rank(path)
    if source.format == HTSIM:
        return n_node(path)
    return n_profile_rank(path) if source.format == PROFILE else n_layer_gpu(path, source.gpus)


def _read(source: TraceSource, n_host: int, leniency: Leniency) -> TraceGraph:
    path = source.path
    if source.format == CHAKRA:
        return read_chakra(path, source.communicators, source.device, leniency)
    if source.format == GOAL:
        return read_goal_binary(path, leniency) if is_goal_binary(path) else read_goal_text(path, leniency)
    if source.format == HTSIM:
        return read_connections(path, leniency)
    if source.format == PROFILE:
        return read_profile(path, leniency)
    if source.format in (SIMAI, ASTRA_TEXT):
        return read_layers(path, source.gpus, n_host, source.format == SIMAI, leniency)
    raise ConfigError(str(path), f'format "{source.format}"', ", ".join(FORMATS))
