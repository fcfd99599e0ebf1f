"""Making the table of flows at flow level."""

from typing import NamedTuple

import numpy as np

from pdes.engine.time_index import NEVER, make_time_index
from pdes.skipping import prediction as m
from pdes.skipping.fluid.flow_table import (
    EVEN,
    MOST_KNOWN,
    MOST_MESSAGES,
    MOST_SIZES,
    MOST_UNEVEN,
    Knowledge,
    Table,
    Ways,
)
from pdes.skipping.fluid.max_min import make_scratch
from pdes.skipping.fluid.stage_load import N_LOAD, StageLoads, no_stages
from pdes.skipping.fluid.weights import MOST_BURSTS, MOST_OF_BURST
from pdes.skipping.partitions import make_partitions


class Links(NamedTuple):
    """What flow level has to know of the network. Ports of flow f are ways[1][ways[0][f] : ways[0][f + 1]]."""

    data_ways: Ways  # of its data
    all_ways: Ways  # with those of its acknowledgements
    form: np.ndarray  # int64[n_flow], equal where ways have the same rates and delays in order; one array for all
    byte_per_ps: np.ndarray  # float64[n_port], payload that a port carries
    behind_ps: np.ndarray  # int64[n_flow], on an idle way from a last byte's leaving to its arrival
    ack_ps: np.ndarray  # int64[n_flow], and from there to its acknowledgement
    stages: StageLoads | None = None  # that ways have besides; then forms are multiples of N_LOAD and the load

    @property
    def n_port(self) -> int:
        """Ports, whether they are on ways or not."""
        return len(self.byte_per_ps)


def make_table(links: Links, tolerance: float, rtt_ps: int, seed: int) -> Table:
    """A table without flows; nothing is known. seed: of what is drawn."""
    n_flow, n_port, n_form = len(links.form), links.n_port, int(links.form.max(initial=0)) + 1
    if links.stages is not None:
        n_form = -(-n_form // N_LOAD) * N_LOAD

    def rows(kind: type = np.int64) -> np.ndarray:
        return np.zeros(n_flow, kind)

    def sizes() -> np.ndarray:
        return np.zeros((n_form, MOST_SIZES))

    sets = np.zeros(MOST_KNOWN, np.int64)
    known = Knowledge(
        sets, sets.astype(np.float64), sets.copy(), sets.copy(), np.zeros(n_form, np.int64), sizes(), sizes(), sizes(),
        np.array([tolerance]), sets + EVEN, np.zeros(MOST_UNEVEN, np.int64), np.zeros((MOST_UNEVEN, n_form)),
        np.zeros((MOST_UNEVEN, n_form, MOST_BURSTS), np.int64),
        np.zeros((MOST_UNEVEN, n_form, MOST_BURSTS, MOST_OF_BURST)),
    )  # fmt: skip
    return Table(
        make_partitions(*links.data_ways, n_port), known, links.form.astype(np.int64, copy=False),
        np.column_stack([links.behind_ps, links.ack_ps]).astype(np.int64), links.byte_per_ps, *links.all_ways,
        np.zeros(n_port, np.int32), np.zeros(n_port, np.int32), make_scratch(n_flow, n_port),
        rows(), np.zeros((n_flow, MOST_MESSAGES, m.N_POSTED), np.int64), rows(np.float64), rows(),
        rows(np.float64), rows(np.float64), rows() - 1, rows(), rows(), rows(), np.zeros((n_flow, 2)), rows(), rows(),
        rows(np.uint8), rows(), rows(np.uint8), rows(np.uint8), rows(), make_time_index(n_flow),
        np.full(n_flow, -1, np.int64), rows(),
        np.zeros((2 * n_flow, 2), np.int64), rows(), rows(np.float64), np.zeros(n_form, np.uint8), rows(),
        np.zeros((n_flow, m.N_COLUMN), np.int64), rows(),
        np.array([0, 0, 0, NEVER, seed, 0, rtt_ps, 0, 0, 0, NEVER], np.int64), links.stages or no_stages(n_flow),
    )  # fmt: skip
