"""What is known of a message that goes without packets: as it was posted, and when it leaves, comes across and ends.

One row of int64 for each message, whoever tells of it. A message that was posted at flow level, or is kept in its
table, has the first N_POSTED columns alone, as nothing is known of its end yet. A prediction has all of them; who makes
one fills what whoever reads it needs, and leaves the others 0.
"""

import numpy as np

(
    FLOW,
    ID,  # the message's
    SIZE,  # bytes of it that go without packets
    END,  # its last byte's end in the flow's stream
    POSTED_PS,
    WHOLE,  # bytes of the message, some of which may have been simulated
    HAS_SHADOW,  # 1: it is simulated all the same, see `fluid.audit`
    BEGIN_PS,  # since when it has gone without packets, or has had a shadow
    FREE_PS,  # when its last byte leaves
    DELIVERED_PS,  # when that comes across
    ENDED_PS,  # and when it is acknowledged
    MARKED,  # packets
) = range(12)
N_POSTED, N_COLUMN = 7, 12


def predictions(posts: np.ndarray) -> np.ndarray:
    """int64[n, N_COLUMN]: of messages as they were posted, int64[n, N_POSTED], nothing said yet of their ends."""
    rows = np.zeros((len(posts), N_COLUMN), np.int64)
    rows[:, :N_POSTED] = posts
    return rows
