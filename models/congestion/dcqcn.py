"""DCQCN: rate control by congestion notifications and timers, no window."""

from numba.extending import register_jitable

from models.congestion.interface import NEVER, scaled

_DECREASE, _INCREASE = 1, 2  # timers; at one instant decrease runs before increase
_FIRST_CHECK_LATE_PS = 1_000  # ns-3 looks at the first cut one ns after its interval


class Dcqcn:
    """DCQCN. Source: Zhu et al. 2015, section 3, in the form of the HPCC repository's CC_MODE 1.

    Alpha's timer ticks every alpha_interval from the first notification on; nothing reads alpha between cuts, so the
    ticks are caught up with when it is needed. Deviations of ns-3 from the paper: no byte counter; alpha starts at 1
    and the first cut comes at the first check, not at once; the hyper increase does not grow with the stage.
    """

    times = ("first_cnp_ps",)
    ecn_at_100g = (400_000, 1_600_000, 0.2)
    parameters = {
        "gain": 1.0 / 256,
        "alpha_interval_ps": "1us",
        "decrease_interval_ps": "4us",
        "increase_interval_ps": "300us",
        "fast_recovery_times": 1,
        "rate_increase_bps": scaled("20Mbps"),
        "hyper_increase_bps": scaled("200Mbps"),
        "min_rate_bps": "1Gbps",
        "clamp_target": False,
    }
    limits = {
        "gain": (0.0, 1.0),
        "alpha_interval_ps": ("1ns", None),
        "decrease_interval_ps": ("1ns", None),
        "increase_interval_ps": ("1ns", None),
        "fast_recovery_times": (0, None),
    }
    papers = {
        "paper": {  # sections 3.1 and 5.2, for 40 Gbit/s; a notification every 50 us at most
            "alpha_interval_ps": "55us",
            "decrease_interval_ps": "50us",
            "increase_interval_ps": "55us",
            "fast_recovery_times": 5,
            "rate_increase_bps": "40Mbps",
            "hyper_increase_bps": "400Mbps",
        }
    }
    state = {
        "alpha": 1.0,
        "target_bps": 0,
        "stage": 0,  # increases since the last cut
        "has_cnp": 0,  # a first notification came
        "first_cnp_ps": 0,
        "alpha_bit": 0,  # a notification came since the last tick of alpha
        "n_tick": 0,  # ticks of alpha that are done
    }

    @staticmethod
    def on_cnp(flow, event, p):
        """Note the notification for alpha's next tick and for the next check."""
        if flow.has_cnp:
            age_ps = event.now_ps - flow.first_cnp_ps
            catch_up(flow, (age_ps - 1) // p.alpha_interval_ps, p.gain)  # arrivals precede a tick of the same instant
            flow.alpha_bit = 1
        else:
            flow.has_cnp = 1
            flow.first_cnp_ps = event.now_ps
            flow.target_bps = flow.rate_bps
        if flow.timer_ps[_DECREASE] == NEVER:
            first_ps = flow.first_cnp_ps + p.decrease_interval_ps + _FIRST_CHECK_LATE_PS
            n_check = max(0, -((first_ps - event.now_ps) // p.decrease_interval_ps))  # that have passed
            flow.timer_ps[_DECREASE] = first_ps + n_check * p.decrease_interval_ps

    @staticmethod
    def on_timer(flow, event, p):
        """A check with a notification since the last one cuts; the other timer raises the rate towards its target."""
        if event.timer == _DECREASE:
            catch_up(flow, (event.now_ps - flow.first_cnp_ps) // p.alpha_interval_ps, p.gain)
            if p.clamp_target or flow.stage:
                flow.target_bps = flow.rate_bps
            least_bps = min(p.min_rate_bps, flow.line_rate_bps)
            flow.rate_bps = max(least_bps, int(flow.rate_bps * (1 - flow.alpha / 2)))
            flow.stage = 0
        else:
            if flow.stage >= p.fast_recovery_times:
                step_bps = p.rate_increase_bps if flow.stage == p.fast_recovery_times else p.hyper_increase_bps
                flow.target_bps = min(flow.target_bps + step_bps, flow.line_rate_bps)
            rate_bps = flow.rate_bps // 2 + flow.target_bps // 2
            flow.stage += 1
            if (
                rate_bps == flow.rate_bps
                and flow.target_bps == flow.line_rate_bps
                and flow.stage > p.fast_recovery_times
            ):
                return  # nothing changes any more: the timer rests until the next cut
            flow.rate_bps = rate_bps
        flow.timer_ps[_INCREASE] = event.now_ps + p.increase_interval_ps


@register_jitable
def catch_up(flow, n_tick, gain):
    """Run alpha's ticks up to number n_tick; the first that is not done yet takes the notification's bit."""
    if n_tick > flow.n_tick:
        alpha = (1 - gain) * flow.alpha + (gain if flow.alpha_bit else 0.0)
        for _ in range(n_tick - flow.n_tick - 1):
            faded = (1 - gain) * alpha
            if faded == alpha:  # the smallest numbers do not fade further
                break
            alpha = faded
        flow.alpha = alpha
        flow.alpha_bit = 0
        flow.n_tick = n_tick
