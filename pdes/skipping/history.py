"""What a model says of flows at a look, and whether that carries on what it said before."""

import numpy as np

# What a model says of each active flow; one row, int64. Behind it: averages that its control keeps, float64, then
# bytes of its stream that its control keeps.
(
    FLOW,
    DONE,  # bytes acknowledged
    DONE_PS,  # and when that was
    SENT,  # first byte not sent
    SENT_PS,  # when the one before it was
    RATE,
    WINDOW,
    MESSAGE_END,
    IS_PLAIN,  # 1: may be skipped as far as its own state is concerned
    HAS_TIMER,  # 1: its control will act at some instant, whatever happens
    MARKED,
    MESSAGE_BEGIN,  # its first byte
    POSTED_PS,  # when it was posted
    IS_WHOLE,  # 1: one message is in flight, and nothing is to be sent again
    ID,  # the message's
    IS_CLEAR,  # 1: it began when it was posted, nothing of its flow was in its way
) = range(16)
N_COLUMN = 16


def goes_on(
    rows: np.ndarray, groups: np.ndarray, count: np.ndarray, last_end: np.ndarray, last_groups: np.ndarray
) -> np.ndarray:
    """Whether flows carry on what their last samples were of: the same message, in the same network partition.

    rows: of the sample now. count: of the samples so far; last_end, last_groups: MESSAGE_END and group of the last.
    """
    same = (count > 0) & (last_end == rows[:, MESSAGE_END]) & (rows[:, IS_PLAIN] != 0)
    return same & (last_groups == groups).all(axis=1)
