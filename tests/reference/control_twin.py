"""The congestion controls of ns-3's RoCE model once more, plain: integers of ns, Python objects, an event list.

Written after a plain twin of ns-3, which reproduces its completion times exactly; the expressions are its own, in its
order. Timers are events of their own here, alpha's too.
"""

import heapq
from dataclasses import dataclass, field

U32, U64 = (1 << 32) - 1, (1 << 64) - 1


@dataclass
class TwinFlow:
    """A sender of ns-3: all controls' state."""

    max_rate: int = 100 * 10**9
    win: int = 52_000
    base_rtt: int = 4_160
    snd_nxt: int = 0
    rate: int = 0
    cur_rate: int = 0
    last_update: int = 0
    inc_stage: int = 0
    u: float = 1.0
    hop: list[tuple[int, int, int, int]] = field(default_factory=lambda: [(0, 0, 0, 1)] * 8)
    last_rtt: int = 0
    rtt_diff: float = 0.0
    alpha: float = 1.0
    ecn_cnt: int = 0
    batch: int = 0
    cwr: bool = False
    high_seq: int = 0

    def __post_init__(self) -> None:
        self.rate = self.cur_rate = self.max_rate


@dataclass
class Hpcc:
    ai: int = 40 * 10**6
    min_rate: int = 10**9
    target: float = 0.95
    mi_thresh: int = 0
    fast_react: bool = True
    int_multi: int = 4

    def ack(self, f: TwinFlow, seq: int, hops: list[tuple[int, int, int, int]]) -> None:
        full = seq > f.last_update
        if not (full or self.fast_react):
            return
        if f.last_update == 0:
            f.last_update = f.snd_nxt
            f.hop[: len(hops)] = hops
            return
        most, dt, m = 0.0, 0, self.int_multi
        for i, (ts, tx, queue, rate) in enumerate(hops):
            ts0, tx0, queue0, _ = f.hop[i]
            tau = (ts - ts0) & 0xFFFFFF
            tx_rate = ((tx - tx0) & 0xFFFFF) * (128 * m) * 8 / (tau * 1e-9)
            u = tx_rate / rate + float(min(queue, queue0) * 80 * m) * f.max_rate / rate / f.win
            if u > most:
                most, dt = u, tau
            f.hop[i] = (ts, tx, queue, rate)
        dt = min(dt, f.base_rtt)
        f.u = (f.u * (f.base_rtt - dt) + most * dt) / f.base_rtt
        c = f.u / self.target
        if c >= 1 or f.inc_stage >= self.mi_thresh:
            new, stage = int(f.cur_rate / c) + self.ai, 0
        else:
            new, stage = f.cur_rate + self.ai, f.inc_stage + 1
        f.rate = min(max(new, self.min_rate), f.max_rate)
        if full:
            f.cur_rate, f.inc_stage = f.rate, stage
            f.last_update = max(f.last_update, f.snd_nxt)


@dataclass
class Timely:
    ai: int = 100 * 10**6
    hai: int = 500 * 10**6
    min_rate: int = 10**9

    def ack(self, f: TwinFlow, seq: int, rtt: int) -> None:
        if seq <= f.last_update:
            return
        if f.last_update:
            f.rtt_diff = (1 - 0.875) * f.rtt_diff + 0.875 * (rtt - f.last_rtt)
            gradient = f.rtt_diff / 20000
            if rtt < 50000 or (rtt <= 500000 and gradient <= 0):
                f.rate = min(f.cur_rate + (self.ai if f.inc_stage < 5 else self.hai), f.max_rate)
                f.inc_stage += 1
            else:
                c = 1 - 0.8 * (1 - 500000.0 / rtt) if rtt > 500000 else max(0.0, 1 - 0.8 * gradient)
                f.rate, f.inc_stage = max(self.min_rate, int(f.cur_rate * c)), 0
            f.cur_rate = f.rate
        if f.snd_nxt > f.last_update:
            f.last_update, f.last_rtt = f.snd_nxt, rtt


@dataclass
class Dctcp:
    ai: int = 615 * 10**6
    min_rate: int = 10**9
    g: float = 0.0625
    mtu: int = 1000

    def ack(self, f: TwinFlow, seq: int, cnp: bool) -> None:
        new_batch = seq > f.last_update
        f.ecn_cnt += cnp
        if new_batch:
            if f.last_update == 0:
                f.batch = (f.snd_nxt // self.mtu + 1) & U32
            else:
                f.alpha = (1 - self.g) * f.alpha + self.g * min(1.0, f.ecn_cnt / f.batch)
                f.ecn_cnt = 0
                f.batch = (((f.snd_nxt - seq) & U64) // self.mtu + 1) & U32
            f.last_update = f.snd_nxt
        f.cwr = f.cwr and seq <= f.high_seq
        if cnp and not f.cwr:
            f.rate = max(self.min_rate, int(f.rate * (1 - f.alpha / 2)))
            f.cwr, f.high_seq = True, f.snd_nxt
        if not f.cwr and new_batch:
            f.rate = min(f.max_rate, f.rate + self.ai)


class Dcqcn:
    """One sender with its three timers as events; at one instant alpha's, then decrease, then increase."""

    ALPHA, DECREASE, INCREASE = range(3)

    def __init__(self, max_rate: int = 100 * 10**9, clamp: bool = False, frt: int = 1, t_alpha: int = 1_000) -> None:
        self.g, self.min_rate, self.frt, self.clamp = 1 / 256, 10**9, frt, clamp
        self.ai, self.hai = 20 * 10**6 * max_rate // 10**11, 200 * 10**6 * max_rate // 10**11
        self.t_alpha, self.t_dec, self.t_inc = t_alpha, 4_000, 300_000
        self.max_rate = self.rate = self.target_rate = max_rate
        self.alpha, self.stage = 1.0, 0
        self.first_cnp, self.alpha_bit, self.dec_bit = True, False, False
        self.heap: list[tuple[int, int, int]] = []
        self.n_restart = 0  # of the increase timer: events of earlier ones are void

    def cnp(self, now: int) -> None:
        self.alpha_bit = self.dec_bit = True
        if self.first_cnp:
            self.first_cnp, self.alpha, self.alpha_bit, self.target_rate = False, 1.0, False, self.rate
            heapq.heappush(self.heap, (now + self.t_alpha, self.ALPHA, 0))
            heapq.heappush(self.heap, (now + self.t_dec + 1, self.DECREASE, 0))

    def run(self, until: int) -> None:
        """All timers before `until`."""
        while self.heap and self.heap[0][0] < until:
            now, timer, n_restart = heapq.heappop(self.heap)
            if timer == self.ALPHA:
                self.alpha = (1 - self.g) * self.alpha + (self.g if self.alpha_bit else 0.0)
                self.alpha_bit = False
                heapq.heappush(self.heap, (now + self.t_alpha, timer, 0))
            elif timer == self.DECREASE:
                heapq.heappush(self.heap, (now + self.t_dec, timer, 0))
                self.decrease(now)
            elif n_restart == self.n_restart:
                heapq.heappush(self.heap, (now + self.t_inc, timer, n_restart))
                self.increase()

    def decrease(self, now: int) -> None:
        if not self.dec_bit:
            return
        if self.clamp or self.stage:
            self.target_rate = self.rate
        self.rate = max(self.min_rate, int(self.rate * (1 - self.alpha / 2)))
        self.stage, self.dec_bit = 0, False
        self.n_restart += 1
        heapq.heappush(self.heap, (now + self.t_inc, self.INCREASE, self.n_restart))

    def increase(self) -> None:
        if self.stage >= self.frt:
            step = self.ai if self.stage == self.frt else self.hai
            self.target_rate = min(self.target_rate + step, self.max_rate)
        self.rate = self.rate // 2 + self.target_rate // 2
        self.stage += 1
