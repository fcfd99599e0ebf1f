"""Looks: network partitions brought up to date, their flows sampled and judged; `assess` is the compiled half."""

from collections.abc import Collection

import numpy as np

from pdes.skipping import history as h
from pdes.skipping.criterion import Criterion
from pdes.skipping.look import assess as a
from pdes.skipping.look.survey import N_JUDGED, make_survey, steady_labels
from pdes.skipping.partitions import Partitions
from pdes.skipping.replay.memo import Episode
from pdes.skipping.steady import Steadiness, Verdict

LEAST_REPLAY = 1  # samples that a message must last for the memo


class Looks:
    """What is kept from look to look, and what the last one found."""

    def __init__(
        self, partitions: Partitions, is_frozen: np.ndarray, criterion: Criterion, look_ps: np.ndarray
    ) -> None:
        """is_frozen: bool[n_flow]. look_ps: int64[n_flow], least time between two samples of a flow."""
        settings, n_flow = criterion.settings, len(look_ps)
        shortest_ps = int(look_ps.min(initial=settings.look_ps))
        self.survey, self._partitions, self._is_frozen = make_survey(look_ps), partitions, is_frozen
        self._criterion, self._steady = criterion, np.zeros(n_flow, np.int64)
        self.words, self._worth = np.zeros(a.N_WORD, np.int64), np.full(2, -1.0)
        self._worth[0] = settings.looks_ahead + settings.least_looks
        self.words[[a.NEXT_LOOK_PS, a.INTERVAL_PS, a.SHORTEST_PS]] = shortest_ps
        self.words[a.LOOK_PS], self.words[a.LEAST_PS] = settings.look_ps, settings.least_looks * settings.look_ps
        self.assessment: a.Assessment | None = None  # where the criterion is compiled
        if isinstance(criterion, Steadiness):
            memory, verdict = criterion.memory, criterion.verdict
            self.assessment = a.Assessment(
                self.words, self._worth, partitions, self.survey, is_frozen, memory, criterion.limits,
                np.zeros((n_flow, memory.kept.shape[3]), np.int64), verdict.may_ps, verdict.progress, self._steady,
                np.zeros((2, n_flow), np.int64), np.full(n_flow, -1, np.int64),
            )  # fmt: skip
        self._judged = np.zeros((0, h.N_COLUMN), np.int64)
        self._verdict = Verdict(0)

    def compile(self) -> None:
        """Compile what a look needs, or load it from the cache. Nothing is active yet."""
        words = self.words.copy()
        columns = h.N_COLUMN if self.assessment is None else self.assessment.judged.shape[1]
        self.look(0, np.zeros((0, columns), np.int64))
        steady_labels(self.survey, 0, np.zeros(0), 0.0, self._steady)
        self.words[:] = words

    @property
    def next_ps(self) -> int:
        """When the next one is due."""
        return int(self.words[a.NEXT_LOOK_PS])

    def prepare(self, has_memo: bool, is_audited: bool, skips_steady: bool, led: Collection[Episode]) -> None:
        """Say what the next look has to know. led: episodes that run."""
        words, table = self.words, self.assessment
        self._worth[1] = LEAST_REPLAY if has_memo else -1.0
        words[a.MUST_FOLLOW], words[a.SKIPS_STEADY] = bool(led) or is_audited, skips_steady
        if table is not None:
            table.led_version[table.led[0, : words[a.N_LED]]] = -1
            for i, episode in enumerate(led):
                table.led[0, i], table.led[1, i] = episode.label, episode.version
                table.led_version[episode.label] = episode.version
            words[a.N_LED] = len(led)

    def look(self, now_ps: int, rows: np.ndarray) -> None:
        """Look at a sample of every active flow that is not frozen, ascending."""
        s, words, criterion = self.survey, self.words, self._criterion
        words[a.LED_DISTURBED] = 1  # it may be
        if self.assessment is not None:
            a.assess(self.assessment, rows, now_ps)
            return
        judges_all = criterion.judges_all
        a.look_over(words, self._worth, self._partitions, s, self._is_frozen, rows, now_ps, judges_all)
        words[a.N_STEADY], n = 0, int(s.found[N_JUDGED])
        if n > 0:
            self._judged = rows if n == len(rows) else rows[s.judged[:n]]
            criterion.add(now_ps, self._judged, s.group[:n])
            self._verdict = criterion.judge(now_ps, self._judged)
            if words[a.SKIPS_STEADY]:
                least_ps = float(words[a.LEAST_PS])
                words[a.N_STEADY] = steady_labels(s, n, self._verdict.may_ps, least_ps, self._steady)

    @property
    def is_led_disturbed(self) -> bool:
        """Whether an episode that runs may have been disturbed before the last look; else none was."""
        return bool(self.words[a.LED_DISTURBED])

    @property
    def steady(self) -> list[int]:
        """Labels of network partitions that have settled, ascending."""
        return self._steady[: self.words[a.N_STEADY]].tolist()

    @property
    def judged(self) -> tuple[np.ndarray, Verdict]:
        """Samples of the flows that were judged, and what was said of them."""
        if self.assessment is None or not isinstance(self._criterion, Steadiness):
            return self._judged, self._verdict
        return self.assessment.judged[: self.survey.found[N_JUDGED]], self._criterion.verdict
