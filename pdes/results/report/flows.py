"""Flow completion times by size and by kind of traffic, from the flows table, column by column."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdes.results.arrow import as_int64
from pdes.results.tables import UNWRITTEN, open_table
from pdes.units import format_duration, format_size

MOST_FLOWS = 4_000_000  # beyond, every n-th is looked at for quantiles
MOST_POINTS = 3_000  # of the plot of single flows
N_QUANTILE = 200
CLASS_EDGES_BYTES = tuple(10**power for power in range(3, 13))


class FlowSample(NamedTuple):
    """Finished flows. Their number and bytes are of all, the arrays of every stride-th flow by id."""

    n_flow: int
    n_finished: int
    stride: int
    size_bytes: np.ndarray
    fct_ps: np.ndarray
    ideal_fct_ps: np.ndarray
    tag: np.ndarray  # index into tags
    tags: list[str]

    @property
    def slowdown(self) -> np.ndarray:
        """float64: FCT over that of an idle network."""
        return self.fct_ps / np.maximum(self.ideal_fct_ps, 1)


def read_flows(path: Path, most: int = MOST_FLOWS) -> FlowSample:
    """Read what the distributions need, at most about `most` flows."""
    names = ("size_bytes", "fct_ps", "ideal_fct_ps")
    parts: list[list[np.ndarray]] = []
    tags: dict[str, int] = {}
    n_flow = n_finished = 0
    with open_table(path, (*names, "tag"), read_dictionary=["tag"]) as file:
        stride = -(-max(file.metadata.num_rows, 1) // most)
        for i_group in range(file.num_row_groups):
            table = file.read_row_group(i_group, columns=[*names, "tag"])
            columns = [as_int64(table.column(name), UNWRITTEN) for name in names]
            tag = np.concatenate([codes for codes in _tag_codes(table.column("tag"), tags)])
            is_done = columns[1] != UNWRITTEN
            taken = is_done & ((np.arange(n_flow, n_flow + len(is_done)) % stride) == 0)
            parts.append([column[taken] for column in (*columns, tag)])
            n_flow, n_finished = n_flow + len(is_done), n_finished + int(is_done.sum())
    empty = [np.zeros(0, np.int64)] * 4
    arrays = [np.concatenate(arrays) for arrays in zip(*(parts or [empty]), strict=True)]
    return FlowSample(n_flow, n_finished, stride, *arrays, tags=list(tags))


def _tag_codes(column: Any, tags: dict[str, int]) -> Iterator[np.ndarray]:
    """Each chunk's tags as indices into all tags, which grow."""
    for chunk in column.chunks:
        known = [tags.setdefault(name or "", len(tags)) for name in chunk.dictionary.to_pylist()]
        known.append(tags.setdefault("", len(tags)) if chunk.null_count else 0)
        yield np.array(known, np.int64)[as_int64(chunk.indices, len(known) - 1)]


def size_classes(size_bytes: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """(class of each flow, names of all classes): decades from 1 kB on."""
    edges = [format_size(edge) for edge in CLASS_EDGES_BYTES]
    names = [f"up to {edges[0]}", *(f"{a} to {b}" for a, b in zip(edges, edges[1:], strict=False)), f"from {edges[-1]}"]
    return np.searchsorted(np.array(CLASS_EDGES_BYTES), size_bytes, side="left"), names


def quantile(values: np.ndarray, share: float) -> Any:
    """The smallest value that at least this share of the values does not pass: one of them."""
    return np.quantile(values, share, method="inverted_cdf")


HEADINGS = ("flows", "bytes", "median FCT", "p99 FCT", "largest FCT", "median slowdown", "p99", "largest")


def class_rows(sample: FlowSample) -> list[tuple[str, ...]]:
    """Rows of the table by size; HEADINGS behind the class."""
    kind, names = size_classes(sample.size_bytes)
    return [(names[i], *_row(sample, kind == i)) for i in np.unique(kind)]


def tag_rows(sample: FlowSample) -> list[tuple[str, ...]]:
    """Rows of the table by kind of traffic."""
    return [(sample.tags[i] or "(none)", *_row(sample, sample.tag == i)) for i in np.unique(sample.tag)]


def _row(sample: FlowSample, taken: np.ndarray) -> tuple[str, ...]:
    fct_ps, slowdown = sample.fct_ps[taken], sample.slowdown[taken]
    times = [int(quantile(fct_ps, 0.5)), int(quantile(fct_ps, 0.99)), int(fct_ps.max())]
    ratios = [quantile(slowdown, 0.5), quantile(slowdown, 0.99), slowdown.max()]
    n, size = int(taken.sum()) * sample.stride, int(sample.size_bytes[taken].sum()) * sample.stride
    counts = (f"{n:,}", format_size(size))
    return (*counts, *(format_duration(time) for time in times), *(f"{ratio:.2f}" for ratio in ratios))


def distribution(values: np.ndarray) -> tuple[list[float], list[float]]:
    """(values, share that does not pass them) of at most N_QUANTILE steps, both ascending."""
    ordered = np.sort(values)
    rank = np.unique(np.linspace(0, len(ordered) - 1, min(N_QUANTILE, len(ordered))).round().astype(int))
    return [float(f"{ordered[i]:.5g}") for i in rank], [round((i + 1) / len(ordered), 6) for i in rank.tolist()]


def points(sample: FlowSample) -> np.ndarray:
    """Indices of the flows that are drawn one by one: the slowest ones, and every n-th of the others."""
    slowest = np.argsort(-sample.slowdown, kind="stable")[: MOST_POINTS // 10]
    every = np.arange(0, len(sample.fct_ps), -(-max(len(sample.fct_ps), 1) // (MOST_POINTS - len(slowest))))
    return np.union1d(slowest, every)
