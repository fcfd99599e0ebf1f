"""SciPy, for policies that solve a problem, and for `pdes-sim calibrate`."""

import importlib
from typing import Any

import numpy as np

from pdes.errors import ConfigError


def optimize(where: str = "[cluster] scheduler", what: str = "this policy") -> Any:
    """scipy.optimize. ConfigError: it is not installed; where, what: needs it."""
    try:
        return importlib.import_module("scipy.optimize")
    except ImportError as error:
        accepted = 'pip install "pdes-sim[cluster]"'
        raise ConfigError(where, f"{what} needs SciPy, which is not installed", accepted) from error


def chosen_of_each(
    costs: np.ndarray, owners: np.ndarray, pools: np.ndarray, sizes: np.ndarray, room: np.ndarray, gap: float
) -> list[int]:
    """Which choices make the sum of costs least: at most one of each owner, and no pool has more than its room.

    costs, owners, pools, sizes: of each choice. gap: how far off the optimum may be, as a share of it.
    """
    use = np.flatnonzero((costs < 0) & (sizes <= room[pools])) if len(costs) else []
    if not len(use):
        return []
    order = use[np.lexsort((costs[use], owners[use]))]
    best = order[np.unique(owners[order], return_index=True)[1]]
    if (np.bincount(pools[best], sizes[best], len(room)) <= room).all():  # nobody stands in another's way
        return best.tolist()
    solver, sparse = optimize(), importlib.import_module("scipy.sparse")
    n, columns = len(use), np.arange(len(use))
    numbers, rows = np.unique(owners[use], return_inverse=True)
    by_owner = sparse.csr_matrix((np.ones(n), (rows, columns)), shape=(len(numbers), n))
    by_pool = sparse.csr_matrix((sizes[use], (pools[use], columns)), shape=(len(room), n))
    limits = [solver.LinearConstraint(by_owner, ub=np.ones(len(numbers))), solver.LinearConstraint(by_pool, ub=room)]
    options, bounds = {"mip_rel_gap": gap, "presolve": False}, solver.Bounds(0, 1)
    # Presolving takes up to 30 times as long as it saves, and then HiGHS prints of itself.
    found = solver.milp(costs[use], integrality=np.ones(n), bounds=bounds, constraints=limits, options=options)
    assert found.x is not None, found.message
    return [int(use[k]) for k in np.flatnonzero(found.x > 0.5)]
