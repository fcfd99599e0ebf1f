"""Spare servers: what stands in for a server that is down, at once or after a while."""

import heapq


class Spares:
    """hot, cold: spares by pool that run and wait, or have to be switched on, which takes cold_us.

    A server that a spare stands for becomes a spare itself once it is repaired. Where there is none, the first one to
    come stands in, if that is before the server's own repair: so as many servers are down as are in repair beyond the
    spares, never more.
    """

    def __init__(self, hot: list[int], cold: list[int], cold_us: int = 0) -> None:
        self.hot, self.cold, self.cold_us = list(hot), list(cold), cold_us
        self._repaired: list[list[tuple[int, int]]] = [[] for _ in hot]  # (when, 1 if it becomes a hot one)
        self.n_used = [0, 0]

    def back_us(self, pool: int, noticed_us: int, repaired_us: int) -> int:
        """When a server that fails is there again, by a spare or by its own repair."""
        coming = self._repaired[pool]
        while coming and coming[0][0] <= noticed_us:
            if heapq.heappop(coming)[1]:
                self.hot[pool] += 1
            else:
                self.cold[pool] += 1
        if self.hot[pool] and noticed_us < repaired_us:
            self.hot[pool] -= 1
            self.n_used[0] += 1
            heapq.heappush(coming, (repaired_us, 1))
            return noticed_us
        if self.cold[pool] and noticed_us + self.cold_us < repaired_us:
            self.cold[pool] -= 1
            self.n_used[1] += 1
            heapq.heappush(coming, (repaired_us, 0))
            return noticed_us + self.cold_us
        if not coming:
            return repaired_us
        first_us, which, is_hot = min(
            (when_us + (0 if is_hot else self.cold_us), i, is_hot) for i, (when_us, is_hot) in enumerate(coming)
        )
        if first_us >= repaired_us:
            return repaired_us
        self.n_used[1 - is_hot] += 1
        coming[which] = (repaired_us, is_hot)
        heapq.heapify(coming)
        return first_us
