"""Where the time of each GPU's main stream went, iteration by iteration: rows of the breakdown table."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pdes.results.tables import PARTS, UNWRITTEN, Columns


class Share(NamedTuple):
    """Rows of one job: how many, n_main of them for each iteration. The first iteration lasts from begin_ps on."""

    n_row: int
    n_main: int
    begin_ps: int


def breakdown_groups(groups: Iterable[Columns], shares: Sequence[Share]) -> Iterator[dict[str, np.ndarray]]:
    """Rows of the breakdown table from rows of gpu, iteration, end_ps and PARTS in ps, by iteration and then stream.

    shares: of the jobs, in the order of their rows. span_ps: from the end of the stream's iteration before, or from the
    job's begin; the parts and idle_ps add up to it. Rows of iterations that have not ended are UNWRITTEN.
    """
    ends = np.cumsum([share.n_row for share in shares])
    before_ps, open_share = np.zeros(0, np.int64), -1  # ends of the last n_main rows of the job that it is about
    for share, group in _cut(groups, ends.tolist()):
        if share != open_share:
            before_ps, open_share = np.full(shares[share].n_main, shares[share].begin_ps), share
        end_ps = group["end_ps"]
        known_ps = np.concatenate([before_ps, end_ps])
        span_ps = end_ps - known_ps[: len(end_ps)]
        before_ps = known_ps[len(end_ps) :]
        parts = {f"{part}_ps": group[part] for part in PARTS}
        columns = {"end_ps": end_ps, "span_ps": span_ps, **parts, "idle_ps": span_ps - sum(parts.values())}
        is_open = end_ps == UNWRITTEN
        kept = {name: np.where(is_open, UNWRITTEN, column) for name, column in columns.items()}
        yield {"gpu": group["gpu"], "iteration": group["iteration"], **kept}


def _cut(groups: Iterable[Columns], ends: Sequence[int]) -> Iterator[tuple[int, Columns]]:
    """(number of the share, rows of it): groups that go on into the next share in two."""
    first, share = 0, 0
    for group in groups:
        n, at = len(group["end_ps"]), 0
        while at < n:
            while first + at >= ends[share]:
                share += 1
            until = min(n, ends[share] - first)
            yield share, {name: column[at:until] for name, column in group.items()}
            at = until
        first += n
