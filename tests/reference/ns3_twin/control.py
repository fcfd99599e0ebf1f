"""The congestion controls, as they stand in the HPCC repository (rdma-hw.cc). All start at line rate."""

from reference.ns3_twin.case import DCQCN, DCTCP, HPCC, TIMELY, Ns3Config
from reference.ns3_twin.event_queue import ALPHA_TIMER, CONTROL_TIMER, DECREASE_TIMER, INCREASE_TIMER
from reference.ns3_twin.host import MASK_64, Host, QueuePair
from reference.ns3_twin.switch import MASK_32, QUEUED_TICK_BYTES, SENT_MASK, SENT_TICK_BYTES, TIME_MASK
from reference.ns3_twin.wire import IntRecord, Packet

NS_PER_US = 1000
MAX_HOPS = 5  # that INT has room for
TIMELY_GAIN, TIMELY_BETA = 0.875, 0.8
TIMELY_LOW_NS, TIMELY_HIGH_NS, TIMELY_MIN_RTT_NS = 50_000, 500_000, 20_000
TIMELY_SLOW_STEPS = 5  # increases before the fast ones


class Control:
    """What decides a pair's rate. Rates are whole bit/s: every change of a rate is cut."""

    def __init__(self, config: Ns3Config, host: Host, pair: QueuePair) -> None:
        self.config, self.host, self.events, self.pair = config, host, host.events, pair

    def take_ack(self, ack: Packet) -> None:
        """Learn from an ACK or NACK, which the pair has taken already, also from the one that ends the flow."""
        raise NotImplementedError

    def stop(self) -> None:
        """The flow ends: no timer is to fire any more."""

    def bounded(self, rate_bps: int) -> int:
        """A rate within MIN_RATE and line rate."""
        return min(max(rate_bps, self.config.min_rate_bps), self.pair.line_rate_bps)


class Dcqcn(Control):
    """DCQCN (Zhu et al. 2015) with timers only, no byte counter; congestion notifications ride on ACKs."""

    def __init__(self, config: Ns3Config, host: Host, pair: QueuePair) -> None:
        super().__init__(config, host, pair)
        self.target_bps = pair.rate_bps
        self.alpha = 1.0
        self.alpha_sees_mark = self.decrease_sees_mark = False
        self.stage = 0  # increases since the last decrease
        self.timers: list[int | None] = [None] * 3

    def take_ack(self, ack: Packet) -> None:
        if not ack.is_marked or self.pair.finish_ns >= 0:
            return
        self.alpha_sees_mark = self.decrease_sees_mark = True
        if self.timers[ALPHA_TIMER] is None:  # the first one
            self.alpha, self.alpha_sees_mark, self.target_bps = 1.0, False, self.pair.rate_bps
            self._set(ALPHA_TIMER, self.config.alpha_interval_us * NS_PER_US)
            self._set(DECREASE_TIMER, self.config.decrease_interval_us * NS_PER_US + 1)

    def stop(self) -> None:
        for event in self.timers:
            self.events.cancel(event)

    def _set(self, timer: int, after_ns: int) -> None:
        action = (self._renew_alpha, self._decrease, self._increase)[timer]
        order = (CONTROL_TIMER, self.pair.i_flow, timer)
        self.timers[timer] = self.events.push(self.events.now_ns + after_ns, order, action)

    def _renew_alpha(self) -> None:
        gain = self.config.gain
        self.alpha = (1 - gain) * self.alpha + (gain if self.alpha_sees_mark else 0.0)
        self.alpha_sees_mark = False
        self._set(ALPHA_TIMER, self.config.alpha_interval_us * NS_PER_US)

    def _decrease(self) -> None:
        self._set(DECREASE_TIMER, self.config.decrease_interval_us * NS_PER_US)
        if not self.decrease_sees_mark:
            return
        if self.config.clamps_target_rate or self.stage != 0:
            self.target_bps = self.pair.rate_bps
        self.pair.rate_bps = max(self.config.min_rate_bps, int(self.pair.rate_bps * (1 - self.alpha / 2)))
        self.stage, self.decrease_sees_mark = 0, False
        self.events.cancel(self.timers[INCREASE_TIMER])
        self._set(INCREASE_TIMER, self.config.increase_interval_us * NS_PER_US)

    def _increase(self) -> None:
        self._set(INCREASE_TIMER, self.config.increase_interval_us * NS_PER_US)
        if self.stage >= self.config.fast_recovery_times:
            is_first = self.stage == self.config.fast_recovery_times
            by_bps = self.config.rate_increase_bps if is_first else self.config.fast_rate_increase_bps
            self.target_bps = min(self.target_bps + by_bps, self.pair.line_rate_bps)
        self.pair.rate_bps = self.pair.rate_bps // 2 + self.target_bps // 2
        self.stage += 1


class Hpcc(Control):
    """HPCC (Li et al. 2019). The order of the floating-point operations is ns-3's: another one gives other rates."""

    def __init__(self, config: Ns3Config, host: Host, pair: QueuePair) -> None:
        super().__init__(config, host, pair)
        self.rate_bps = pair.rate_bps  # of the last full update
        self.utilisation = 1.0
        self.n_additive = 0
        self.update_after = 0  # byte
        self.last: list[IntRecord] = [(0, 0, 0, 1)] * MAX_HOPS

    def take_ack(self, ack: Packet) -> None:
        assert len(ack.telemetry) <= MAX_HOPS, "a path of more than 5 switches does not fit into INT"
        is_full = ack.number > self.update_after
        if not is_full and not self.config.fast_react:
            return
        if self.update_after == 0:
            self.update_after = self.pair.next_byte
            self.last[: len(ack.telemetry)] = ack.telemetry
            return
        self._measure(ack)
        excess = self.utilisation / self.config.target_utilisation
        if excess >= 1 or self.n_additive >= self.config.mi_threshold:
            rate_bps, n_additive = int(self.rate_bps / excess) + self.config.rate_increase_bps, 0
        else:
            rate_bps, n_additive = self.rate_bps + self.config.rate_increase_bps, self.n_additive + 1
        rate_bps = self.bounded(rate_bps)
        self.host.retime(self.pair, rate_bps)
        if is_full:
            self.rate_bps, self.n_additive = rate_bps, n_additive
            self.update_after = max(self.update_after, self.pair.next_byte)

    def _measure(self, ack: Packet) -> None:
        """Fold the busiest hop since the last ACK into the average utilisation."""
        busiest, busiest_ns = 0.0, 0
        for i_hop, record in enumerate(ack.telemetry):
            gap_ns = record[0] - self.last[i_hop][0] & TIME_MASK
            utilisation = self._hop_utilisation(record, self.last[i_hop], gap_ns)
            if utilisation > busiest:
                busiest, busiest_ns = utilisation, gap_ns
            self.last[i_hop] = record
        base_ns = self.pair.base_rtt_ns
        busiest_ns = min(busiest_ns, base_ns)
        self.utilisation = (self.utilisation * (base_ns - busiest_ns) + busiest * busiest_ns) / base_ns

    def _hop_utilisation(self, new: IntRecord, old: IntRecord, gap_ns: int) -> float:
        """Rate of one hop over the gap plus the queue that stood there, against capacity."""
        m, hop_bps = self.config.int_multiplier, new[3]
        sent_bps = (new[1] - old[1] & SENT_MASK) * (SENT_TICK_BYTES * m) * 8 / (gap_ns * 1e-9)
        queue_bytes = float(min(new[2], old[2]) * QUEUED_TICK_BYTES * m)
        return sent_bps / hop_bps + queue_bytes * self.pair.line_rate_bps / hop_bps / self.pair.window_bytes


class Timely(Control):
    """TIMELY (Mittal et al. 2015), once per window of data."""

    def __init__(self, config: Ns3Config, host: Host, pair: QueuePair) -> None:
        super().__init__(config, host, pair)
        self.last_rtt_ns, self.rtt_slope_ns = 0, 0.0
        self.n_increase = 0
        self.update_after = 0  # byte

    def take_ack(self, ack: Packet) -> None:
        if ack.number <= self.update_after:
            return
        rtt_ns = self.events.now_ns - ack.sent_ns
        if self.update_after > 0:
            self._update(rtt_ns)
        if self.pair.next_byte > self.update_after:
            self.update_after, self.last_rtt_ns = self.pair.next_byte, rtt_ns

    def _update(self, rtt_ns: int) -> None:
        self.rtt_slope_ns = (1 - TIMELY_GAIN) * self.rtt_slope_ns + TIMELY_GAIN * (rtt_ns - self.last_rtt_ns)
        gradient = self.rtt_slope_ns / TIMELY_MIN_RTT_NS
        rate_bps = self.pair.rate_bps
        if rtt_ns < TIMELY_LOW_NS or (rtt_ns <= TIMELY_HIGH_NS and gradient <= 0):
            is_slow = self.n_increase < TIMELY_SLOW_STEPS
            by_bps = self.config.rate_increase_bps if is_slow else self.config.fast_rate_increase_bps
            self.pair.rate_bps = min(rate_bps + by_bps, self.pair.line_rate_bps)
            self.n_increase += 1
            return
        if rtt_ns > TIMELY_HIGH_NS:
            factor = 1 - TIMELY_BETA * (1 - float(TIMELY_HIGH_NS) / rtt_ns)
        else:
            factor = max(0.0, 1 - TIMELY_BETA * gradient)
        self.pair.rate_bps = max(self.config.min_rate_bps, int(rate_bps * factor))
        self.n_increase = 0


class Dctcp(Control):
    """DCTCP (Alizadeh et al. 2010), by rate: one cut per window, one additive step per unmarked window."""

    def __init__(self, config: Ns3Config, host: Host, pair: QueuePair) -> None:
        super().__init__(config, host, pair)
        self.alpha = 1.0
        self.n_marked = self.n_packet = 0  # in the window
        self.update_after = 0  # byte
        self.is_reduced, self.reduced_until = False, 0  # byte

    def take_ack(self, ack: Packet) -> None:
        pair, config = self.pair, self.config
        self.n_marked += ack.is_marked
        is_new_window = ack.number > self.update_after
        if is_new_window:
            self._close_window(ack.number)
        self.is_reduced = self.is_reduced and ack.number <= self.reduced_until
        if ack.is_marked and not self.is_reduced:
            pair.rate_bps = max(config.min_rate_bps, int(pair.rate_bps * (1 - self.alpha / 2)))
            self.is_reduced, self.reduced_until = True, pair.next_byte
        if is_new_window and not self.is_reduced:
            pair.rate_bps = min(pair.line_rate_bps, pair.rate_bps + config.dctcp_rate_increase_bps)

    def _close_window(self, acked: int) -> None:
        """Renew alpha, except at the first window's start, which keeps the count of marks too."""
        in_flight_bytes = self.pair.next_byte
        if self.update_after != 0:
            share = min(1.0, self.n_marked / self.n_packet)
            self.alpha = (1 - self.config.gain) * self.alpha + self.config.gain * share
            self.n_marked = 0
            in_flight_bytes = self.pair.next_byte - acked & MASK_64
        self.n_packet = in_flight_bytes // self.config.payload_bytes + 1 & MASK_32
        self.update_after = self.pair.next_byte


CONTROLS: dict[int, type[Control]] = {DCQCN: Dcqcn, HPCC: Hpcc, TIMELY: Timely, DCTCP: Dctcp}
