"""Which flows are at flow level, and what is known of what they get there: see `flow_level`."""

import numpy as np

from pdes.engine.time_index import NEVER, make_time_index
from pdes.skipping.fluid.flow_level import (
    append,
    interrupt,
    join,
    reload,
    tick,
)
from pdes.skipping.fluid.flow_table import (
    EVEN,
    FAR_PS,
    MOST_KNOWN,
    MOST_MESSAGES,
    MOST_UNEVEN,
    N_FLOW,
    N_KNOWN,
    N_POST_COLUMN,
    N_SAID_COLUMN,
    NEXT_PS,
    PAUSE_TICKS,
    POST_END,
    POST_SIZE,
    Knowledge,
    Table,
    Ways,
)
from pdes.skipping.fluid.max_min import make_scratch
from pdes.skipping.fluid.shares import Known, Rates
from pdes.skipping.fluid.solve import digest_of
from pdes.skipping.fluid.weights import MOST_BURSTS, MOST_OF_BURST
from pdes.skipping.partitions import make_partitions
from pdes.skipping.prediction import (
    PREDICTED_DELIVERED_PS,
    PREDICTED_END,
    PREDICTED_ENDED_PS,
    PREDICTED_FLOW,
    PREDICTED_FREE_PS,
    PREDICTED_ID,
    PREDICTED_SIZE,
)


class FlowLevel:
    """Flows at flow level, and what is known of them."""

    def __init__(
        self, ways: Ways, all_ways: Ways, form: np.ndarray, byte_per_ps: np.ndarray,
        late_ps: tuple[np.ndarray, np.ndarray], tick_ps: int, seed: int = 0,
    ) -> None:  # fmt: skip
        """ways: ports of flow f's data are ways[1][ways[0][f] : ways[0][f + 1]]; all_ways: with those of its
        acknowledgements. form: int64[n_flow], equal where ways are. byte_per_ps: float64[n_port]. late_ps:
        int64[n_flow] twice, see `Table`. tick_ps: see `tick`. seed: of what is drawn.
        """
        n_flow, n_port, n_form = len(form), len(byte_per_ps), int(form.max(initial=0)) + 1

        def rows(kind: type = np.int64) -> np.ndarray:
            return np.zeros(n_flow, kind)

        sets = np.zeros(MOST_KNOWN, np.int64)
        known = Knowledge(
            sets, sets.astype(np.float64), sets.copy(), sets.copy(), np.zeros((n_form, 2)), sets + EVEN,
            np.zeros(MOST_UNEVEN, np.int64), np.zeros((MOST_UNEVEN, n_form)),
            np.zeros((MOST_UNEVEN, n_form, MOST_BURSTS), np.int64),
            np.zeros((MOST_UNEVEN, n_form, MOST_BURSTS, MOST_OF_BURST)),
        )  # fmt: skip
        self.tick_ps = tick_ps
        self.table = Table(
            make_partitions(*ways, n_port), known, form.astype(np.int64),
            np.column_stack(late_ps).astype(np.int64), byte_per_ps, *all_ways, np.zeros(n_port, np.int32),
            np.zeros(n_port, np.int32), make_scratch(n_flow, n_port),
            rows(), np.zeros((n_flow, MOST_MESSAGES, N_POST_COLUMN), np.int64), rows(np.float64), rows(),
            rows(np.float64), rows(np.float64), rows() - 1, rows(), rows(), rows(np.uint8), rows(np.uint8), rows(),
            make_time_index(n_flow), np.full(n_flow, -1, np.int64), rows(), np.zeros((2 * n_flow, 2), np.int64), rows(),
            rows(np.float64), np.zeros(n_form, np.uint8), rows(), np.zeros((n_flow, N_SAID_COLUMN), np.int64), rows(),
            np.array([0, 0, 0, NEVER, seed, 0], np.int64),
        )  # fmt: skip
        self._numbers: dict[bytes, int] = {}  # of sets of forms
        self._not_before_ps = rows()  # flows are not taken from packet level again
        self.is_form = np.zeros(n_form, np.bool_)  # that may be at flow level

    def compile(self, holder: np.ndarray) -> None:
        """Compile what happens at ticks, or load it from the cache."""
        none, posts, rates = np.zeros(0, np.int64), np.zeros((0, N_POST_COLUMN), np.int64), np.zeros(0)
        digest_of(none, 0)
        tick(self.table, holder, 0, 1, posts, none)
        interrupt(self.table, holder, none, 0, 1)
        join(self.table, holder, posts, rates, rates, 0.0, 0, 0, 1)
        append(self.table, posts)
        reload(self.table, none, 0, 1)

    @property
    def is_used(self) -> bool:
        """Whether flows may be at flow level."""
        return bool(self._numbers)

    @property
    def n_flow(self) -> int:
        """That are."""
        return int(self.table.words[N_FLOW])

    @property
    def next_ps(self) -> int:
        """The next tick, whatever is posted."""
        return int(self.table.words[NEXT_PS])

    def note(self, key: bytes, new: Known) -> bool:
        """What flows of a set of forms came to (key: see `share_key`); whether more forms are known now."""
        number = self._numbers.get(key, len(self._numbers))
        has_row = new.uneven.n_burst == 0 or self.table.known.uneven.max() < MOST_UNEVEN - 1
        if number >= MOST_KNOWN or not has_row and self.table.known.uneven[number] == EVEN:
            return False
        self._numbers[key] = number
        words, known = np.frombuffer(key, np.int64).copy(), self.table.known
        forms, few = words[:-1].copy(), -int(words[-1])
        known.digest[number] = digest_of(forms, few)
        known.part[number], known.n_most[number], known.queued_ps[number] = new.part, new.n_most, new.queued_ps
        self._note_uneven(number, new)
        self.table.words[N_KNOWN] = len(self._numbers)
        is_more = not self.is_form[forms].all()
        self.is_form[forms] = True
        return is_more

    def _note_uneven(self, number: int, new: Known) -> None:
        """How flows of a set of forms share ports, if they do so unevenly."""
        known, (form, weight, ratio, n_ratio) = self.table.known, new.uneven
        if len(form) == 0:
            return
        if known.uneven[number] == EVEN:
            known.uneven[number] = known.uneven.max() + 1
        row, n_burst = known.uneven[number], ratio.shape[1]
        known.n_burst[row], known.weight[row, form] = n_burst, weight
        known.ratio[row, form, :n_burst], known.n_ratio[row, form, :n_burst] = ratio, n_ratio

    def note_alone(self, flow: int, size: int, sent_ps: int, longer: float) -> None:
        """How long the bytes of a message took that had its way to itself, and by how much longer they take where
        acknowledgements cross it."""
        if sent_ps > 0:
            self.table.known.alone[self.table.form[flow]] = size / sent_ps, size / (sent_ps * longer)

    def knows_alone(self, flows: np.ndarray) -> np.ndarray:
        """bool[n]: flows that go at flow level when they are alone."""
        form = self.table.form[flows]
        return self.is_form[form] & (self.table.known.alone[form, 0] > 0)

    def takes_alone(self, flows: np.ndarray, now_ps: int) -> np.ndarray:
        """bool[n]: flows that go at flow level when they are alone, and may now if they are simulated."""
        return self.knows_alone(flows) & (self._not_before_ps[flows] <= now_ps)

    def take_alone(
        self, now_ps: int, holder: np.ndarray, predicted: np.ndarray, posted_ps: np.ndarray, is_loaded: np.ndarray
    ) -> np.ndarray:
        """Take over messages that are alone from the packet level; predictions with ends that are not known yet.

        predicted: int64[n, N_PREDICTED_COLUMN], how they would end on lanes. is_loaded: bool[n], whether they meet
        acknowledgements.
        """
        flow, left_ps = predicted[:, PREDICTED_FLOW], np.maximum(predicted[:, PREDICTED_FREE_PS] - now_ps, 0)
        rates = self.table.known.alone[self.table.form[flow], is_loaded.astype(np.int64)]
        columns = [PREDICTED_FLOW, PREDICTED_ID, PREDICTED_SIZE, PREDICTED_END]
        posts = np.column_stack([predicted[:, columns], posted_ps])
        join(self.table, holder, posts, left_ps * rates, rates, 0.0, 0, now_ps, self.tick_ps)
        predicted = predicted.copy()
        predicted[:, [PREDICTED_DELIVERED_PS, PREDICTED_ENDED_PS, PREDICTED_FREE_PS]] = now_ps + FAR_PS
        return predicted

    def note_load(self, now_ps: int, ports: np.ndarray, n_ack: np.ndarray) -> None:
        """Acknowledgements of other flows begin or cease to cross ports. n_ack: int32[n], how many flows' do now."""
        if len(ports):
            self.table.n_other_ack[ports] = n_ack
            reload(self.table, ports, now_ps, self.tick_ps)

    def tick(
        self, now_ps: int, holder: np.ndarray, posts: np.ndarray, others: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(int64[n, N_SAID_COLUMN]: how messages end, int64[]: flows that go on packet by packet), see `tick`."""
        n_said, n_broken = tick(self.table, holder, now_ps, self.tick_ps, posts, others)
        broken = self.table.broken[:n_broken].copy()
        self._not_before_ps[broken] = now_ps + PAUSE_TICKS * self.tick_ps
        return self.table.said[:n_said], broken

    def interrupt(self, flows: np.ndarray, holder: np.ndarray, now_ps: int) -> np.ndarray:
        """int64[]: flows that go on packet by packet, as these do."""
        if self.n_flow == 0:
            return np.zeros(0, np.int64)
        broken = self.table.broken[: interrupt(self.table, holder, flows, now_ps, self.tick_ps)].copy()
        self._not_before_ps[broken] = now_ps + PAUSE_TICKS * self.tick_ps
        return broken

    def take(
        self, now_ps: int, holder: np.ndarray, rests: list[tuple[int, ...]], given: Rates, posted_ps: np.ndarray
    ) -> list[tuple[int, ...]]:  # fmt: skip
        """Take over messages from the packet level, at the parts of their shares that they are given; how they end, as
        `lanes` has it: that is not known yet. rests: see `shares`."""
        rates, queued_ps, key = given
        flow, name, size, end, _, delivered_ps, *_ = np.array(rests, np.int64).T
        sent_ps = delivered_ps - self.table.late_ps[flow, 0] - queued_ps
        if key not in self._numbers or (self._not_before_ps[flow] > now_ps).any():  # learned in this very look, or so
            return []
        part = float(self.table.known.part[self._numbers[key]])
        left = np.maximum(sent_ps - now_ps, 0) * rates
        posts = np.column_stack([flow, name, size, end, posted_ps])
        join(self.table, holder, posts, left, rates, part, queued_ps, now_ps, self.tick_ps)
        far_ps = now_ps + FAR_PS
        return [(*rest[:4], now_ps, far_ps, far_ps, rest[7], far_ps) for rest in rests]

    def follow(self, posts: np.ndarray) -> None:
        """Messages that wait behind those of flows at flow level go there, too."""
        append(self.table, posts)

    def left(self, flows: np.ndarray, at_ps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(end, size, bytes left at an instant: float64) of flows' first messages of which nothing was said; also of
        those that were broken."""
        t = self.table
        gone = t.rate[flows] * np.maximum(at_ps - t.since_ps[flows], 0)
        first = t.message[flows, 0]
        return first[:, POST_END], first[:, POST_SIZE], np.maximum(t.left[flows] - gone, 0.0)
