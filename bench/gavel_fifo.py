"""First in, first out as Gavel's own code has it, to tell what its published times are of: not a policy to use.

It draws a type for each job, and assigns the last one on its list of types all the same. Once that one is full, the
type that was drawn leaves the list, so that a full type may stay on it, and have all jobs that follow assigned, until
shares are computed anew. Jobs that share a full type take turns.
"""

from models.cluster.schedulers.rounds.fifo import FifoRounds
from models.cluster.schedulers.rounds.rounds import Shares


class FifoOfGavel(FifoRounds):
    """Jobs of one GPU. `seed` is that of the draws."""

    options = {key: value for key, value in FifoRounds.options.items() if key != "pick"}
    pick = "last"

    def shares(self) -> Shares:
        """All of a pool's time for each job that is assigned to it, be it more than there is."""
        n_free = list(self.cluster.machine.n_up)
        line = [number for number in sorted(self.active) if number not in self.pool_of]
        for number, pool in sorted(self.pool_of.items()):
            if number in self.active:
                n_free[pool] -= 1
                continue
            del self.pool_of[number]
            if line and n_free[pool] >= 1:
                self.pool_of[line.pop(0)] = pool
                n_free[pool] -= 1
        listed = [pool for pool in self.sorted_pools if n_free[pool] > 0]
        for number in line:
            fitting = [i for i, pool in enumerate(listed) if n_free[pool] >= 1]
            if not fitting:
                break
            drawn = fitting[self.draws.randrange(len(fitting))]
            self.pool_of[number] = last = listed[-1]
            n_free[last] -= 1
            if n_free[last] == 0:
                listed.pop(drawn)
        return {number: [float(p == mine) for p in range(self.n_pool)] for number, mine in self.pool_of.items()}
