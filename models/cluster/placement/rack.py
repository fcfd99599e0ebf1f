"""As few racks as possible, then as few servers: what keeps a job's traffic below one leaf, or on one rail."""

from models.cluster.job import Place
from models.cluster.machine import Machine


def place(machine: Machine, pool: int, n: int) -> Place | None:
    """The fullest rack that has what is left, else all that the emptiest one has; never waits while enough are free."""
    if machine.n_free[pool] < n:
        return None
    racks, free = machine.racks_of[pool], machine.rack_free
    chosen: Place = []
    while n:
        fitting = [rack for rack in racks if free[rack] >= n]
        rack = min(fitting, key=free.__getitem__) if fitting else max(racks, key=free.__getitem__)
        n_here = min(n, free[rack])
        chosen += _within(machine, rack, n_here)
        n -= n_here
    return chosen


def _within(machine: Machine, rack: int, n: int) -> Place:
    """Best fit in one rack, which has so many free."""
    free, chosen = machine.free, []
    servers = [server for server in machine.servers_of_rack(rack) if free[server] > 0]
    while n:
        fitting = [server for server in servers if free[server] >= n]
        server = min(fitting, key=free.__getitem__) if fitting else max(servers, key=free.__getitem__)
        n_here = min(n, free[server])
        machine.take(server, n_here)
        chosen.append((server, n_here))
        n -= n_here
    return chosen
