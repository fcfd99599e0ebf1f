"""What the two ends of queue pairs have, as one table, on a rank that has them all."""

import numpy as np

from models.network.state.records import Nic


def both_ends(nic: Nic) -> dict[str, np.ndarray]:
    """Columns by field, rows by queue pair; the receivers' are copies."""
    senders = {name: nic.queue_pairs[name] for name in nic.queue_pairs.dtype.names or ()}
    return senders | {name: nic.receivers[name][nic.receiver_row] for name in nic.receivers.dtype.names or ()}
