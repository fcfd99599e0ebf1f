"""Which flows are at flow level, and what is known of what they get there: see `flow_level`."""

import numpy as np

from pdes.skipping import prediction as m
from pdes.skipping.fluid.ack_load import Slowdown
from pdes.skipping.fluid.alone_rates import LARGER, MIN_ROUND_TRIPS, alone_rates
from pdes.skipping.fluid.flow_level import Comers, append, give_up, interrupt, join, reload, see_loads, tick
from pdes.skipping.fluid.flow_table import (
    EVEN,
    HAS_NEW_LOADS,
    LAST_PS,
    MOST_KNOWN,
    MOST_SIZES,
    MOST_UNEVEN,
    N_FLOW,
    N_KNOWN,
    N_MESSAGE,
    NEXT_PS,
    PAUSE_TICKS,
)
from pdes.skipping.fluid.make_table import Links, make_table
from pdes.skipping.fluid.shares import Known
from pdes.skipping.fluid.solve import digest_of, who_meets_acks
from pdes.skipping.fluid.stage_load import N_LOAD

ANY_BYTES = 2**62


class FlowLevel:
    """Flows at flow level, and what is known of them; alike on every rank."""

    def __init__(self, links: Links, tolerance: float, tick_ps: int, slowdown: Slowdown, seed: int) -> None:
        """tick_ps: see `tick`. seed: of what is drawn."""
        self.tick_ps, self._tolerance, self._slowdown = tick_ps, tolerance, slowdown
        self.table = make_table(links, tolerance, tick_ps, seed)
        self._numbers: dict[bytes, int] = {}  # of sets of forms
        self._not_before_ps = np.zeros(len(links.form), np.int64)  # flows are not taken from packet level again
        self._is_form = np.zeros(len(self.table.known.n_size), np.bool_)  # whose flows share as it is known
        self.most_bytes = np.zeros(len(self._is_form), np.int64)  # by form: no larger message goes there when posted
        self.least_bytes = np.full(len(self._is_form), ANY_BYTES)  # nor a smaller one
        self.has_news = False  # of these
        self.is_used = False  # something is known, or was measured

    def compile(self, holder: np.ndarray) -> None:
        """Compile what happens at ticks, or load it from the cache."""
        none, posts, rates = np.zeros(0, np.int64), np.zeros((0, m.N_POSTED), np.int64), np.zeros((0, 2))
        digest_of(none, 0)
        tick(self.table, holder, 0, 1, posts, none)
        interrupt(self.table, holder, none, 0, 1)
        give_up(self.table, holder, none, 0, 1)
        join(self.table, holder, Comers(posts, np.zeros(0), rates, none), 0.0, 0, 1)
        append(self.table, posts)
        reload(self.table, none, 0, 1)
        see_loads(self.table, none, none, np.zeros(0, np.bool_), 0, 1)
        self.rates_alone(none, none, none)
        self.meets_acks(none)

    @property
    def n_flow(self) -> int:
        """Flows that are there."""
        return int(self.table.words[N_FLOW])

    @property
    def next_ps(self) -> int:
        """The next tick, whatever is posted."""
        return int(self.table.words[NEXT_PS])

    @property
    def last_ps(self) -> int:
        """The last tick."""
        return int(self.table.words[LAST_PS])

    @property
    def n_posted(self) -> int:
        """Messages that were posted here."""
        return int(self.table.words[N_MESSAGE])

    def knows(self, key: bytes) -> bool:
        """Whether it was told what flows of a set of forms get."""
        return key in self._numbers

    def note(self, key: bytes, new: Known) -> None:
        """What flows of a set of forms came to (key: see `share_key`)."""
        number = self._numbers.get(key, len(self._numbers))
        has_row = new.uneven.n_burst == 0 or self.table.known.uneven.max() < MOST_UNEVEN - 1
        if number >= MOST_KNOWN or not has_row and self.table.known.uneven[number] == EVEN:
            return
        self._numbers[key] = number
        words, known = np.frombuffer(key, np.int64).copy(), self.table.known
        forms, few = words[:-1].copy(), -int(words[-1])
        known.digest[number] = digest_of(forms, few)
        known.part[number], known.n_most[number], known.queued_ps[number] = new.part, new.n_most, new.queued_ps
        self._note_uneven(number, new)
        self.table.words[N_KNOWN] = len(self._numbers)
        self._is_form[forms], self.least_bytes[forms], self.most_bytes[forms] = True, 0, ANY_BYTES
        self.has_news = self.is_used = True

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

    def note_alone(self, flow: int, size: int, sent_ps: int) -> None:
        """How long the bytes of a message took that had its way to itself, and no acknowledgements on it."""
        known, form = self.table.known, int(self.table.form[flow])
        k = int(known.n_size[form])
        if sent_ps <= 0 or k == MOST_SIZES:
            return
        known.size[form, k], known.sent_ps[form, k] = size, sent_ps
        is_full = len(self.table.stages.is_full) > 0 and form % N_LOAD != 0
        known.longer[form, k] = 1.0 if is_full else self._slowdown.times(flow, size, sent_ps, False, True)
        known.n_size[form] = k + 1
        once_ps = max(0.0, sent_ps - size * float(self._slowdown.line_ps[flow]))
        far_ps = once_ps - self._tolerance * sent_ps  # above 0: the rate of larger ones is not known well enough
        most = ANY_BYTES if far_ps <= 0 else min(int(size * once_ps / far_ps), ANY_BYTES)
        if is_full:
            most = min(most, int(LARGER * size))
        self.most_bytes[form] = max(self.most_bytes[form], most)
        least_bytes = min(size * (1 - self._tolerance), MIN_ROUND_TRIPS * self.tick_ps * size / sent_ps)
        self.least_bytes[form] = min(self.least_bytes[form], int(np.ceil(least_bytes)))
        self.has_news = self.is_used = True

    def rates_alone(self, flows: np.ndarray, size: np.ndarray, is_loaded: np.ndarray) -> np.ndarray:
        """float64[n]: rates of messages that have their ways to themselves, 0: not known. is_loaded: int64[n]."""
        rates = np.zeros(len(flows))
        alone_rates(self.table, flows, size, is_loaded, rates)
        return rates

    def meets_acks(self, flows: np.ndarray) -> np.ndarray:
        """bool[n]: whether acknowledgements of others, simulated or not, cross flows' ways."""
        found = np.zeros(len(flows), np.bool_)
        who_meets_acks(self.table, flows, found)
        return found

    def see_loads(self, flows: np.ndarray, has_timer: np.ndarray, now_ps: int) -> np.ndarray:
        """bool[n]: of whom nothing can be learned for their stages, see `see_packets`."""
        is_mixed = np.zeros(len(flows), np.bool_)
        see_loads(self.table, flows, has_timer, is_mixed, now_ps, self.tick_ps)
        return is_mixed

    def have_new_loads(self) -> bool:
        """Whether forms have changed with the load of stages since this was asked last."""
        is_new = bool(self.table.words[HAS_NEW_LOADS])
        self.table.words[HAS_NEW_LOADS] = 0
        self.has_news |= is_new
        return is_new

    def takes(self, flows: np.ndarray, now_ps: int) -> np.ndarray:
        """bool[n]: flows that are simulated, and may be taken."""
        return self._not_before_ps[flows] <= now_ps

    def join(self, now_ps: int, holder: np.ndarray, comers: Comers, key: bytes | None = None) -> None:
        """Take over messages from the packet level. key: under which it is known what they get, None: the rates were
        measured."""
        part = 0.0 if key is None else float(self.table.known.part[self._numbers[key]])
        join(self.table, holder, comers, part, now_ps, self.tick_ps)
        self.is_used = True

    def note_load(self, now_ps: int, ports: np.ndarray, n_ack: np.ndarray) -> None:
        """Acknowledgements of other flows begin or cease to cross ports. n_ack: int32[n], how many flows' do now."""
        if len(ports):
            self.table.n_other_ack[ports] = n_ack
            reload(self.table, ports, now_ps, self.tick_ps)

    def tick(
        self, now_ps: int, holder: np.ndarray, posts: np.ndarray, others: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(predictions of how messages end, int64[]: flows that go on packet by packet), see `tick`."""
        n_predicted, n_broken = tick(self.table, holder, now_ps, self.tick_ps, posts, others)
        return self.table.predicted[:n_predicted].copy(), self.broken(n_broken, now_ps)

    def broken(self, n_broken: int, now_ps: int) -> np.ndarray:
        """int64[n_broken]: flows that go on packet by packet, as the table says; they are left alone for a while."""
        broken = self.table.broken[:n_broken].copy()
        self._not_before_ps[broken] = now_ps + PAUSE_TICKS * self.tick_ps
        return broken

    def interrupt(self, flows: np.ndarray, holder: np.ndarray, now_ps: int) -> np.ndarray:
        """int64[]: flows that go on packet by packet, as these do."""
        if self.n_flow == 0:
            return np.zeros(0, np.int64)
        return self.broken(interrupt(self.table, holder, flows, now_ps, self.tick_ps), now_ps)

    def give_up(self, flows: np.ndarray, holder: np.ndarray, now_ps: int) -> np.ndarray:
        """int64[]: flows that go on packet by packet, of these and who shares ports with them."""
        return self.broken(give_up(self.table, holder, flows, now_ps, self.tick_ps), now_ps)

    def follow(self, posts: np.ndarray) -> None:
        """Messages that wait behind those of flows at flow level go there, too."""
        append(self.table, posts)

    def left_bytes(self, flows: np.ndarray, at_ps: int) -> np.ndarray:
        """float64[n]: what has not left by an instant of all messages of flows that are there, without shadows."""
        t, (_, _, left) = self.table, self.left(flows, at_ps)
        later = np.arange(t.message.shape[1]) < t.n_message[flows][:, None]
        later[:, :1] = False
        return (left + (t.message[flows, :, m.SIZE] * later).sum(axis=1)) * (t.is_shadow[flows] == 0)

    def planned(self, flows: np.ndarray) -> np.ndarray:
        """Predictions of flows' first messages of which there is none yet, if nothing changes."""
        t = self.table
        flows = np.unique(flows[(t.n_message[flows] > 0) & (t.is_predicted[flows] == 0) & (t.rate[flows] > 0)])
        found = m.predictions(t.message[flows, 0])
        found[:, m.FREE_PS] = t.sent_ps[flows]
        delivered_ps = t.sent_ps[flows] + t.late_ps[flows, 0] + t.waited_ps[flows]
        found[:, m.DELIVERED_PS] = np.maximum(delivered_ps, t.last_ps[flows])
        found[:, m.ENDED_PS] = found[:, m.DELIVERED_PS] + t.late_ps[flows, 1]
        return found

    @property
    def there(self) -> np.ndarray:
        """int64[]: flows at flow level, ascending."""
        return np.flatnonzero(self.table.n_message) if self.n_flow else np.zeros(0, np.int64)

    def left(self, flows: np.ndarray, at_ps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(end, size, bytes left at an instant: float64) of flows' first messages that are not predicted yet; also of
        those that were broken."""
        t = self.table
        gone = t.rate[flows] * np.maximum(at_ps - t.since_ps[flows], 0)
        first = t.message[flows, 0]
        return first[:, m.END], first[:, m.SIZE], np.maximum(t.left[flows] - gone, 0.0)
