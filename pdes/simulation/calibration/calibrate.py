"""Calibrate flow mode for congestion controls: simulate the cases, fit the numbers, write the table."""

import shlex
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from models.congestion.law import BUILT_IN
from pdes.config import Config
from pdes.convert.toml_text import toml_text, write_whole
from pdes.errors import ConfigError
from pdes.scenario.flow_numbers import parameters_digest
from pdes.simulation.calibration.bed import Bed, Runs, bed_of, default_bed, far_bed
from pdes.simulation.calibration.cases import Case, all_cases, far_layout, lay_out, weights
from pdes.simulation.calibration.fit import Fit, Numbers, fit
from pdes.simulation.versions import version_of
from pdes.skipping.max_min.table import WHOLE
from pdes.units import exact_duration, exact_rate, exact_size, format_duration, format_rate

HEAD = """\
Flow mode's numbers of congestion controls, measured packet by packet. Made by: {command}
# alone, shared: share of a link's rate that one message has alone, and that several have together. queue: how long a
# message's last packet waits at a link that it shares, at any rate; no longer than the message itself takes there.
# use, reach: where messages contend for a link that is offered more than it has, they have the share `use` of its rate,
# and no more than `reach` times what their senders could send together, once that goes on for `use_from`.
# error, worst: of completion times in the cases that were fitted, absolute and relative, on average and at most. Cases
# are of two kinds of the same weight: port_error is the mean where messages meet in one port, exchange_error that where
# everybody sends to everybody. Not fitted: ring_error, in a ring that sends both ways; far_error, in exchanges among
# hosts of which some are further off than others."""


class Calibration(NamedTuple):
    """What came of one control."""

    bed: Bed
    fit: Fit
    port_error: float
    exchange_error: float
    ring_error: float
    far_error: float

    @property
    def name(self) -> str:
        """Of the control, as tables of calibrations have it."""
        return self.bed.control.law.name


def beds(config: Config | None, controls: Sequence[str]) -> list[Bed]:
    """What is to be calibrated. controls: empty: all built-in ones, or the config's. Raises ConfigError."""
    if config is None:
        found = [default_bed(name) for name in controls or BUILT_IN]
    else:
        found = [bed_of(config, name) for name in controls or (None,)]
    names = [bed.control.law.name for bed in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ConfigError("--control", f"{', '.join(sorted(twice))} is there twice", "Accepted: each control once")
    return found


def calibrate(bed: Bed, say: Callable[[str], None], cases: list[Case] | None = None) -> Calibration:
    """One control. say: told what is being done. cases: in place of all."""
    cases, name = cases or all_cases(bed.rate_bps), bed.control.law.name
    layout = lay_out(cases)
    weight, is_lone = weights(cases), np.array([one.n_host == 2 for one in cases])
    with tempfile.TemporaryDirectory(prefix="pdes-calibrate-") as folder:
        runs = Runs(bed, layout, Path(folder))
        say(f"{name}: {len(layout.case)} messages, packet by packet")
        full_ps = runs.as_packets()
        say(f"{name}: fitting flow mode to them")
        found = fit(full_ps, layout.case, weight, is_lone, bed.rtt_ps, runs.in_flow_mode)
        say(f"{name}: exchanges among hosts at different distances")
        far = far_error(bed, found.numbers, Path(folder) / "far")
    port, exchange, ring = _by_kind(cases, found)
    return Calibration(bed, found, port, exchange, ring, far)


def far_error(bed: Bed, numbers: Numbers, folder: Path) -> float:
    """Mean absolute relative error of completion times in `far_layout`. folder: is made."""
    runs = Runs(far_bed(bed), far_layout(bed.rate_bps), folder)
    return float(np.abs(runs.in_flow_mode(*numbers) / runs.as_packets() - 1).mean())


def _by_kind(cases: list[Case], found: Fit) -> tuple[float, ...]:
    """Mean errors into one port, in exchanges, in what was not fitted."""
    kinds = [
        [i for i, one in enumerate(cases) if one.is_fitted and not one.is_exchange],
        [i for i, one in enumerate(cases) if one.is_fitted and one.is_exchange],
        [i for i, one in enumerate(cases) if not one.is_fitted],
    ]
    return tuple(float(found.by_case[kind].mean()) if kind else 0.0 for kind in kinds)


def table_text(found: Sequence[Calibration], words: Sequence[str]) -> str:
    """The file. words: of the command."""
    head = HEAD.format(command=f"pdes-sim calibrate {shlex.join(words)}")
    return toml_text(head, {_key(one.name): _row(one) for one in found})


def check_target(target: Path) -> None:
    """Before all the work: ConfigError if a file cannot be written there."""
    if target.is_dir() or not target.absolute().parent.is_dir():
        found = "is a folder" if target.is_dir() else "is in a folder that is not there"
        raise ConfigError(f"--output {target}", found, "Accepted: a file name in a folder that can be written")


def write_table(target: Path, text: str) -> None:
    """Whole or not at all. Raises ConfigError."""
    write_whole(target, text)


def summary(one: Calibration) -> str:
    """A line for people."""
    numbers, bed = one.fit.numbers, one.bed
    return (
        f"{one.name}: alone {numbers.alone:g}, shared {numbers.shared:g}, queue {format_duration(numbers.queue_ps)}; "
        f"mean error {_percent(one.fit.error)} (whole links, no queues: {_percent(one.fit.before)}), at most "
        f"{_percent(one.fit.worst)}: {_percent(one.port_error)} into one port, {_percent(one.exchange_error)} in "
        f"exchanges, {_percent(one.far_error)} in some at different distances, {_percent(one.ring_error)} in a ring; "
        f"at {format_rate(bed.rate_bps)}, round trip {format_duration(bed.rtt_ps)}"
    )


def _row(one: Calibration) -> dict[str, Any]:
    numbers, bed = one.fit.numbers, one.bed
    return {
        "alone": numbers.alone,
        "shared": numbers.shared,
        "queue": exact_duration(numbers.queue_ps),
        **_contended(numbers),
        "error": _rounded(one.fit.error),
        "worst": _rounded(one.fit.worst),
        "port_error": _rounded(one.port_error),
        "exchange_error": _rounded(one.exchange_error),
        "ring_error": _rounded(one.ring_error),
        "far_error": _rounded(one.far_error),
        "rate": exact_rate(bed.rate_bps),
        "rtt": exact_duration(bed.rtt_ps),
        "payload": exact_size(bed.config.network.payload_bytes),
        "parameters": parameters_digest(bed.control),
        "version": version_of("pdes-sim"),
    }


def _contended(numbers: Numbers) -> dict[str, Any]:
    """Three lists, or nothing."""
    use = numbers.use
    if use == WHOLE:
        return {}
    return {"use": list(use.use), "reach": list(use.reach), "use_from": [exact_duration(ps) for ps in use.from_ps]}


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else f'"{name}"'


def _rounded(share: float) -> float:
    return float(f"{share:.3g}")


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.3g} %"
