"""What no other point beats in all metrics at once."""

import numpy as np


def pareto(*columns: np.ndarray) -> list[int]:
    """Points that no other is as good as in all columns and better in one; less is better. By the first, then the next.

    columns: float64[n_point] each. A point that is not finite in one of them is not there.
    """
    values = np.stack(columns, axis=1)
    order = np.lexsort(values.T[::-1])
    order = order[np.isfinite(values[order]).all(axis=1)]
    front: list[int] = []
    for i in order.tolist():  # who beats it comes before it, and if it is not of the front itself, is beaten by one
        before = values[front]
        if not ((before <= values[i]).all(axis=1) & (before < values[i]).any(axis=1)).any():
            front.append(i)
    return front
