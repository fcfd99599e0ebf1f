"""Where the time of each GPU's main stream went, iteration by iteration: rows of the breakdown table."""

from collections.abc import Iterable, Iterator

import numpy as np

from pdes.results.tables import PARTS, UNWRITTEN, Columns


def breakdown_groups(groups: Iterable[Columns], n_main: int) -> Iterator[dict[str, np.ndarray]]:
    """Rows of the breakdown table from rows of gpu, iteration, end_ps and PARTS in ps, by iteration and then stream.

    span_ps: from the end of the stream's iteration before, or from 0; the parts and idle_ps add up to it. Rows of
    iterations that have not ended are UNWRITTEN.
    """
    before_ps = np.zeros(n_main, np.int64)  # ends of the last n_main rows
    for group in groups:
        end_ps = group["end_ps"]
        known_ps = np.concatenate([before_ps, end_ps])
        span_ps = end_ps - known_ps[: len(end_ps)]
        before_ps = known_ps[len(end_ps) :]
        parts = {f"{part}_ps": group[part] for part in PARTS}
        columns = {"end_ps": end_ps, "span_ps": span_ps, **parts, "idle_ps": span_ps - sum(parts.values())}
        is_open = end_ps == UNWRITTEN
        kept = {name: np.where(is_open, UNWRITTEN, column) for name, column in columns.items()}
        yield {"gpu": group["gpu"], "iteration": group["iteration"], **kept}
