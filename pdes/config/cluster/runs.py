"""[cluster.runs]: jobs whose iteration times come from runs of their model on a part of the fabric."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from pdes.config.tables.fields import Meaning, Table


class RunKindConfig(Table):
    """[[cluster.runs.kind]]: what jobs of a kind do."""

    kind: str = Field(min_length=1)
    workload: dict[str, Any]
    MEANING: ClassVar[Meaning] = {
        "kind": "of jobs, as arrivals or the file of jobs have it",
        "workload": "a table as [workload] of kind training; dp follows from how many GPUs a job has",
    }


class RunsConfig(Table):
    """[cluster.runs]."""

    kind: Annotated[list[RunKindConfig], Field(min_length=1, max_length=256)]
    fabric: dict[str, Any] = {}
    network: dict[str, Any] = {}
    wormhole: dict[str, Any] = {"mode": "flow"}
    iterations: Annotated[int, Field(ge=1, le=1000)] = 3
    neighbours: Annotated[int, Field(ge=0, le=64)] = 2
    check: Annotated[float, Field(ge=0, le=1)] = 0.0
    memo: Annotated[str, Field(min_length=1)] | None = None
    MEANING: ClassVar[Meaning] = {
        "kind": "kinds of jobs that are run; all others go at their pool's speed",
        "fabric": 'keys of [topology], but for sizes that follow from the pools; kind = "roft" if it is not given, or '
        '"dual-plane", "leaf-spine", "fat-tree", "three-tier"',
        "network": "as [network]",
        "wormhole": "as [wormhole]: flow mode if it is not given",
        "iterations": "of a run; the first one is left out of its mean",
        "neighbours": "so many jobs that share links count at most, those that share most racks; 0: none",
        "check": "the share of cases in flow mode that are run in packets, too, to know how far off they are",
        "memo": "a file of iteration times, which other runs may use, too; relative to the config's folder",
    }
