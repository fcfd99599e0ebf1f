"""For how long a rate that was measured in windows, each twice as long as the one before, may be relied on.

Two windows that agree say little of a control that swings, or of one that is far slower than they are: one of them may
lie in a flat part, or on the other side of a peak. TIMELY holds its rates for many round trips while a queue fills, and
then cuts them. So this asks what the criterion for whole network partitions asks (`windows`), under a tolerance:

- the last window covers some round trips as they are now, queueing included;
- what was sent in it is what was acknowledged: else a queue fills or drains, and the rate changes when that ends;
- no timer of the control is on: it would act by itself, perhaps far later than windows see;
- the control's rate and window do not swing: of one that does, only whole cycles say anything, and only the criterion
  for partitions finds these;
- had the change between the last two windows gone on, the flow would not be off by more than the tolerance;
- for more than some times the last window, the same holds of the change from the window before them, unless the
  control has settled.
"""

import numpy as np

from pdes.engine.jit import step_kernel
from pdes.skipping import history as h
from pdes.skipping.windows import FOREVER, SETTLED, covers_round_trips, mismatch_of, rate_of, stays

N_ROUND_TRIP = 4  # that the last window has to cover
SWING = 0.1  # of a control's rate or window, relative, from sample to sample; it is trusted up to there
N_KEPT = 4  # samples: three windows
MOST_WINDOWS = 8  # for so many times the last window two of them suffice
N_COLUMN = h.HAS_TIMER + 1  # that are kept of a sample, see `history`


@step_kernel
def _goes_on_ps(kept, k, last, tolerance):
    """For how long the change from window k..k+1 to the last one may go on, until the flow is off by the tolerance."""
    change = abs(rate_of(kept, k, k + 1) / rate_of(kept, last - 1, last) - 1)
    ends_ps = kept[last, h.DONE_PS] + kept[last - 1, h.DONE_PS] - kept[k, h.DONE_PS] - kept[k + 1, h.DONE_PS]
    last_ps = kept[last, h.DONE_PS] - kept[last - 1, h.DONE_PS]
    return tolerance * ends_ps / max(change, 1e-12) - last_ps  # the middles are half of ends_ps apart, as is the mean


@step_kernel
def trusted_ps(kept, n, tolerance):
    """For how long the rate of the last window may be relied on, ps from the last sample on; negative: not at all.

    kept: int64[N_KEPT, N_COLUMN], the first n of which are samples.
    """
    last = n - 1
    if last < 2:
        return -1.0
    for k in range(max(0, last - 3), last):
        if not 0 < rate_of(kept, k, k + 1) < FOREVER:
            return -1.0
    if kept[last, h.HAS_TIMER] != 0 or mismatch_of(kept, last - 1, last) > tolerance:
        return -1.0
    if not covers_round_trips(kept, last - 1, last, N_ROUND_TRIP) or not stays(kept, last - 2, last, SWING):
        return -1.0
    may_ps = _goes_on_ps(kept, last - 2, last, tolerance)
    most_ps = float(MOST_WINDOWS * (kept[last, h.DONE_PS] - kept[last - 1, h.DONE_PS]))
    if stays(kept, last - 2, last, SETTLED):
        most_ps = FOREVER
    elif last >= 3:
        most_ps = max(most_ps, _goes_on_ps(kept, last - 3, last, tolerance))
    return min(may_ps, most_ps)


def last_window(kept: np.ndarray, n_kept: np.ndarray, flow: int, n_later: int = 0) -> tuple[int, int]:
    """(bytes, ps) of a flow's last window, or of the one that n_later others follow. There is to be one."""
    end = n_kept[flow] - n_later
    before, last = kept[flow, end - 2 : end]
    return int(last[h.DONE] - before[h.DONE]), int(last[h.DONE_PS] - before[h.DONE_PS])
