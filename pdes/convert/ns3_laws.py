"""From CC_MODE and its keys to a congestion control of ours and its table.

Rates stand in a config.txt as they are, for every line rate. A key that is missing has ns-3's default (third.cc), or,
where ns-3 would not start without it, ours. Keys of the tables are the controls' own (models/congestion/).
"""

from typing import NamedTuple

from pdes.convert.ns3_config import Ns3Keys
from pdes.units import exact_rate

Table = dict[str, object]
DEFAULT_MODE = "1"
MODES = {"1": "DCQCN", "3": "HPCC", "7": "TIMELY", "8": "DCTCP", "10": "HPCC-PINT"}
DEFAULT_MIN_RATE_BPS, DEFAULT_DCTCP_INCREASE_BPS = 100 * 10**6, 10**9
TIME_WRAP_NS = 2**24  # telemetry's time stamp has 24 bits of ns
TX_WRAP_QUANTA, TX_QUANTUM_BYTES = 2**20, 128  # and its byte counter 20 bits of INT_MULTI quanta


class Ns3Law(NamedTuple):
    """A control for a CC_MODE, with the table [network.<name>]."""

    name: str
    table: Table
    warnings: list[str]


def law_of(keys: Ns3Keys, mode: str, is_native: bool) -> Ns3Law:
    """The control of a file. is_native: telemetry without ns-3's wrap-around."""
    if mode == "1":
        return Ns3Law("dcqcn", _dcqcn(keys), [])
    if mode == "3":
        wraps = {} if is_native else _wraps(keys)
        table = _hpcc(keys) | {"fast_react": keys.flag("FAST_REACT", True)} | wraps
        return Ns3Law("hpcc", table, [])
    if mode == "7":
        return Ns3Law("timely", _increases(keys), [])
    if mode == "8":
        increase_bps = keys.rate_bps("DCTCP_RATE_AI")
        increase_bps = DEFAULT_DCTCP_INCREASE_BPS if increase_bps is None else increase_bps
        table = {"gain": float(keys.number("EWMA_GAIN")), "rate_increase": exact_rate(increase_bps)}
        return Ns3Law("dctcp", table | _min_rate(keys), [])
    log_base = keys.entries.get("PINT_LOG_BASE")
    table = _hpcc(keys) | ({} if log_base is None else {"log_base": float(keys.number("PINT_LOG_BASE"))})
    return Ns3Law("hpcc-pint", table, [])


def mode_of(keys: Ns3Keys) -> str:
    """CC_MODE as text. ConfigError: ns-3 has no handler for it."""
    mode = str(keys.whole("CC_MODE", int(DEFAULT_MODE)))
    if mode not in MODES:
        raise keys.fault("CC_MODE", f"Accepted: {', '.join(f'{number} ({name})' for number, name in MODES.items())}")
    return mode


def _min_rate(keys: Ns3Keys) -> Table:
    rate_bps = keys.rate_bps("MIN_RATE")
    return {"min_rate": exact_rate(DEFAULT_MIN_RATE_BPS if rate_bps is None else rate_bps)}


def _increase(keys: Ns3Keys) -> Table:
    rate_bps = keys.rate_bps("RATE_AI")
    return {} if rate_bps is None else {"rate_increase": exact_rate(rate_bps)}


def _increases(keys: Ns3Keys) -> Table:
    fast_bps = keys.rate_bps("RATE_HAI")
    return _min_rate(keys) | _increase(keys) | ({} if fast_bps is None else {"hyper_increase": exact_rate(fast_bps)})


def _dcqcn(keys: Ns3Keys) -> Table:
    """Intervals are doubles in us, cut off to whole ones where ns-3 makes times of them."""
    table = _increases(keys) | {"gain": float(keys.number("EWMA_GAIN"))}
    for key, name, default in (
        ("alpha_interval", "ALPHA_RESUME_INTERVAL", 55),
        ("decrease_interval", "RATE_DECREASE_INTERVAL", 4),
        ("increase_interval", "RP_TIMER", None),
    ):
        if default is not None or name in keys:
            table[key] = f"{keys.whole(name, default or 0, least=1)}us"
    table["fast_recovery_times"] = keys.whole("FAST_RECOVERY_TIMES", 5)
    table["clamp_target"] = keys.flag("CLAMP_TARGET_RATE", False)
    return table


def _hpcc(keys: Ns3Keys) -> Table:
    target = float(keys.number("U_TARGET")) if "U_TARGET" in keys else 0.95
    table: Table = {"target_utilisation": target, "max_stage": keys.whole("MI_THRESH", 5)}
    return table | _min_rate(keys) | _increase(keys)


def _wraps(keys: Ns3Keys) -> Table:
    quantum_bytes = TX_QUANTUM_BYTES * keys.whole("INT_MULTI", 1, least=1)
    return {"time_wrap": f"{TIME_WRAP_NS}ns", "tx_wrap": f"{TX_WRAP_QUANTA * quantum_bytes}B"}
