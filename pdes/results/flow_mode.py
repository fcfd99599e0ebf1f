"""What people are told of flow mode's numbers: where they come from, and how far off they were there."""

from collections.abc import Mapping
from typing import Any

from pdes.units import format_duration, format_rate


def calibration_text(numbers: Mapping[str, Any]) -> str:
    """How far off flow mode is known to be. numbers: as `result.json` has them, config.wormhole.flow.numbers."""
    control, made = numbers.get("control", "the control"), numbers.get("made_at")
    if not made:
        how = f"not calibrated for {control}: data get {100 * numbers.get('shared', 1.0):g} % of a link's rate"
        return f"{how}, nothing waits, and nobody has measured how far off that is"
    own = f", of other parameters than this run's {control}" if numbers.get("has_other_parameters") else ""
    place = f"where it was calibrated ({format_rate(made['rate_bps'])}, round trip {format_duration(made['rtt_ps'])}"
    error, exchange, port = (f"{100 * numbers[f'{name}error']:.2g} %" for name in ("", "exchange_", "port_"))
    kinds = f"{exchange} in all-to-alls, {port} where messages meet in one port"
    return f"calibrated for {control} to within {error}, mean error of completion times {place}{own}: {kinds})"
