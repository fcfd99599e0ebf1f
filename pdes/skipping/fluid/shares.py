"""What flows that share ports get of them, once it is known that they share evenly: max-min fair shares.

A company (`seen`) has to be simulated until its rates are known, and again whenever somebody comes to it or leaves. An
all-to-all has dozens of flows that begin and end one after the other, so it would hardly ever be let alone. But what
its flows come to is no news after a while: their ports are full, and each gets its part. So measured rates of companies
are compared with max-min fair shares of their ports. Where two companies in a row, of flows with ways of the same forms
(rates and delays in order), have come to the same part of these in the sum, and no flow is far off its share, then
companies of such flows are taken to get that part of theirs from the beginning on. HyGra's flow level (section IV)
shares out rates like this, and Wormhole's memo (section 4) keeps what a conflict graph came to: here it is one number.

Which flow of a company is ahead of the others is chance that this does not foresee. A control takes its new share at
once here; in truth it takes as many round trips as it gains packets, which are few where many share a port. So at some
port of a company LEAST_FLOWS have to meet, and no more than MORE_FLOWS times as many as did in the companies that were
measured. Of fewer, each may be far off its share for as long as they meet. They are known if they were not: if flows
of FEW_SEEN companies, of which as many met, were off that part of their shares by no more than the tolerance on
average.
"""

from typing import Any, NamedTuple

import numpy as np

from pdes.skipping import history as h
from pdes.skipping.fluid.make_table import Links
from pdes.skipping.fluid.max_min import make_scratch, max_min
from pdes.skipping.fluid.weights import MOST_BURSTS, MOST_FLOWS, NOTHING, Uneven, fit, make_episode, run_fluid, together
from pdes.skipping.similar.waves import Wants

MIN_LEFT_ROUND_TRIPS = 4  # of the last of a company's messages, else they are simulated
MOVES_ROUND_TRIPS = 4  # for so long what a flow got done is told from where it began, not from what is acknowledged
LEAST_FLOWS = 4  # at one port: the end of one gives the others a third more at most
MORE_FLOWS = 2  # times as many at one port as were measured
FEW_SEEN = 8  # companies of fewer
MOST_KEPT = 1024  # companies whose fair shares are kept
UNEVEN = 5  # times the tolerance: so far flows may be off their shares on average, as single flows of waves are


def share_key(forms: np.ndarray, n_most: int) -> bytes:
    """What is known of flows goes by. forms: int64[], of their ways, ascending. n_most: that meet at one port."""
    return np.append(forms, -n_most if n_most < LEAST_FLOWS else 0).astype(np.int64).tobytes()


class Known(NamedTuple):
    """What companies of one set of forms came to."""

    part: float  # of the sum of fair shares
    n_most: int  # flows at one port
    queued_ps: int  # by which round trips were longer than on idle ways
    uneven: Uneven = NOTHING  # where flows share unevenly


class Fair(NamedTuple):
    """What flows would get of the ports that they share if all got their max-min fair shares."""

    rates: np.ndarray  # float64[n], bytes per ps
    n_most: int  # flows at one port
    key: bytes  # under which it is known what they get


class Rates(NamedTuple):
    """What flows get of the ports that they share."""

    rates: np.ndarray  # float64[n], bytes per ps
    queued_ps: int  # how long each packet waits in queues
    key: bytes  # under which it is known


class Seen(NamedTuple):
    """Companies of few flows, in the sum."""

    n: int = 0
    part: float = 0.0
    queued_ps: int = 0
    error: float = 0.0  # mean over each company's flows, relative to the mean part so far


class Shares:
    """What is known of them; alike on every rank."""

    def __init__(self, links: Links, tolerance: float, rtt_ps: int) -> None:
        self._start, self._port_of = links.data_ways
        self._form, self._byte_per_ps, self._tolerance = links.form, links.byte_per_ps, tolerance
        self._behind_ps, self._ack_ps = links.behind_ps, links.ack_ps
        self._rtt_ps, n_port = rtt_ps, links.n_port
        form = links.form
        self._scratch = make_scratch(len(form), n_port)
        self._went_on = np.full((len(form), 2), -1, np.int64)  # bytes from which it went on packet by packet, and when
        self._first: dict[bytes, Known] = {}  # by forms: of the last company
        self._seen: dict[bytes, Seen] = {}  # of few flows
        self._known: dict[bytes, Known] = {}
        self._uneven: set[bytes] = set()  # whose windows say that they share unevenly
        self.news: dict[bytes, Known] = {}  # what somebody has still to be told of that
        self.version = 0  # of what is known
        self._fair_of: dict[bytes, Fair] = {}  # by flows: looks see the same ones again and again

    def forget_forms(self) -> None:
        """Flows' forms are others."""
        self._fair_of.clear()

    @property
    def n_known(self) -> int:
        """Sets of forms whose flows are known to share evenly."""
        return len(self._known)

    def compile(self) -> None:
        """Compile what shares out, or load it from the cache."""
        none = np.zeros(0, np.int64)
        self._fair(none)
        episode = make_episode(none, none, none, none)
        run_fluid(episode, self._start, self._port_of, self._byte_per_ps, self._scratch, 1.0)

    def __getstate__(self) -> dict[str, Any]:
        """For checkpoints: without what can be found again."""
        return vars(self) | {"_fair_of": {}}

    def _fair(self, flows: np.ndarray) -> Fair:
        found = self._fair_of.get(name := flows.tobytes())
        if found is None:
            rate = np.zeros(len(flows))
            n_most = int(max_min(flows, self._start, self._port_of, self._byte_per_ps, self._scratch, rate))
            found = Fair(rate, n_most, share_key(np.unique(self._form[flows]), n_most))
            if len(self._fair_of) == MOST_KEPT:
                self._fair_of.clear()
            self._fair_of[name] = found
        return found

    def learn(self, flows: np.ndarray, windows: np.ndarray, in_flight: np.ndarray) -> None:
        """Compare what flows of a company got with their fair shares.

        windows: int64[n, 2], bytes and in which time, 0 and 0 if there were none. in_flight: int64[n], bytes that are
        not acknowledged.
        """
        (fair, n_most, key), goes = self._fair(flows), windows[:, 0] > 0
        if not goes.any():  # they wait, perhaps for something that is lost
            return
        got = np.divide(windows[:, 0], windows[:, 1], out=np.zeros(len(flows)), where=goes)
        part = float(got.sum() / fair.sum())
        idle_ps = (self._behind_ps + self._ack_ps)[flows[goes]]
        queued_ps = max(0, int((in_flight[goes] / got[goes] - idle_ps).mean()))
        if n_most < LEAST_FLOWS:
            self._learn_of_few(key, got / fair, Known(part, n_most, queued_ps))
            return
        if float(np.abs(got / (part * fair) - 1).mean()) > UNEVEN * self._tolerance:
            self._first.pop(key, None)
            self._uneven.add(key)
            return
        first = self._first.get(key)
        self._first[key] = Known(part, n_most, queued_ps)
        if first is None or abs(first.part - part) > self._tolerance * part:
            return
        n_most, known = min(n_most, first.n_most), self._known.get(key)
        if known is None or n_most > known.n_most:
            self._know(key, Known((first.part + part) / 2, n_most, (first.queued_ps + queued_ps) // 2))

    def _learn_of_few(self, key: bytes, parts: np.ndarray, new: Known) -> None:
        """The same of a company of few flows. parts: float64[n], of their fair shares, that they got."""
        seen = self._seen.get(key, Seen())
        n, part, queued_ps = seen.n + 1, seen.part + new.part, seen.queued_ps + new.queued_ps
        error = seen.error + float(np.abs(parts * n / part - 1).mean())
        self._seen[key] = Seen(n, part, queued_ps, error)
        if n >= FEW_SEEN and error <= n * self._tolerance and key not in self._known:
            self._know(key, Known(part / n, new.n_most, queued_ps // n))

    def learn_episode(self, rows: np.ndarray, delivered_ps: np.ndarray) -> None:
        """Learn how flows share that do so unevenly, of messages that were simulated from the first posting to the last
        end, with nobody else on busy ports of theirs.

        rows: samples of their flows. delivered_ps: int64[n], when the messages came across. The first message of a
        queue pair begins at line rate, and says nothing of those behind it.
        """
        if (rows[:, h.MESSAGE_BEGIN] == 0).any():
            return
        flows, posted_ps = rows[:, h.FLOW].copy(), rows[:, h.POSTED_PS]
        size = rows[:, h.MESSAGE_END] - rows[:, h.MESSAGE_BEGIN]
        _, n_most, key = self._fair(flows)
        known = self._known.get(key)
        is_even = known is not None and known.uneven.n_burst == 0
        if is_even or key not in self._uneven or n_most < LEAST_FLOWS or len(flows) > MOST_FLOWS:
            return
        sent_ps = np.maximum(delivered_ps - self._behind_ps[flows], posted_ps + 1)
        episode, ways = make_episode(flows, size, posted_ps, sent_ps), (self._start, self._port_of)
        source = self._port_of[self._start[flows]]
        part, uneven = fit(episode, self._form[flows], source, ways, self._byte_per_ps, self._scratch)
        if known is None:
            self._know(key, Known(part, n_most, 0, uneven))
        elif known.uneven.n_burst < MOST_BURSTS:
            n, n_more = known.uneven.n_burst, uneven.n_burst
            part = (known.part * n + part * n_more) / (n + n_more)
            self._know(key, Known(part, max(n_most, known.n_most), 0, together(known.uneven, uneven)))

    @property
    def wants(self) -> Wants:
        """Which waves `learn_episode` learns from, or may learn from by the time that they are over."""
        return Wants(LEAST_FLOWS, self._is_wanted)

    def _is_wanted(self, flows: np.ndarray) -> bool:
        _, n_most, key = self._fair(flows)
        if n_most < LEAST_FLOWS or len(flows) > MOST_FLOWS:
            return False
        known = self._known.get(key)
        return known is None or 0 < known.uneven.n_burst < MOST_BURSTS

    def _know(self, key: bytes, known: Known) -> None:
        self._known[key] = self.news[key] = known
        self.version += 1

    def rates(self, flows: np.ndarray) -> Rates | None:
        """What flows that share ports get of them; None: it is not known."""
        fair, n_most, key = self._fair(flows)
        known = self._known.get(key)
        if known is None or n_most > MORE_FLOWS * known.n_most:
            return None
        return Rates(fair * known.part, known.queued_ps, key)

    def is_news(self, flows: np.ndarray) -> bool:
        """Whether what flows of a company get is not known yet."""
        return self._fair(flows).key not in self._known

    def go_on(self, flows: np.ndarray, base: np.ndarray, at_ps: int) -> None:
        """Flows go on packet by packet: what had left by at_ps."""
        self._went_on[flows, 0], self._went_on[flows, 1] = base, at_ps

    def rests(self, now_ps: int, rows: np.ndarray, given: Rates) -> np.ndarray:
        """int64[n]: when the last bytes of a company's messages leave from where they are; none: it is not known.

        rows: samples of all of the company's flows.
        """
        flows, (rates, queued_ps, _) = rows[:, h.FLOW].copy(), given
        begin, end, done, posted_ps = (rows[:, k] for k in (h.MESSAGE_BEGIN, h.MESSAGE_END, h.DONE, h.POSTED_PS))
        base, went_on_ps = self._went_on[flows].T
        goes_on = (base >= begin) & ((done == base) | (now_ps < went_on_ps + MOVES_ROUND_TRIPS * self._rtt_ps))
        is_new = ~goes_on & (now_ps < posted_ps + MOVES_ROUND_TRIPS * self._rtt_ps) & (rows[:, h.IS_CLEAR] != 0)
        if (~goes_on & ~is_new & (done == begin)).any():
            return flows[:0]
        late_ps = self._behind_ps[flows] + queued_ps + self._ack_ps[flows]
        had = np.where(goes_on, base, np.where(is_new, begin, done))
        had_ps = np.where(goes_on, went_on_ps - queued_ps, rows[:, h.DONE_PS] - late_ps)
        had_ps = np.where(is_new, posted_ps, had_ps)  # when all before that byte had left
        free_ps = had_ps + ((end - had) / rates).astype(np.int64)
        if (free_ps - now_ps).max() < MIN_LEFT_ROUND_TRIPS * self._rtt_ps:
            return flows[:0]
        return np.maximum(free_ps, now_ps)
