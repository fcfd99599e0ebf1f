"""The ports of many flows at once."""

import numpy as np


def ports_of(flows: np.ndarray, start: np.ndarray, port_of: np.ndarray) -> np.ndarray:
    """int64[]: ports of flows, one flow after the other. Those of flow f are port_of[start[f] : start[f + 1]]."""
    n_port = start[flows + 1] - start[flows]
    end = np.cumsum(n_port)
    rows = np.arange(int(end[-1]) if len(end) else 0) + np.repeat(start[flows] - end + n_port, n_port)
    return port_of[rows].astype(np.int64)
