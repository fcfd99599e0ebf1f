"""`pdes-sim calibrate`: constants of a config from measurements, or flow mode's numbers of controls from packets."""

import argparse
import math
import sys
import threading
import time
from pathlib import Path

from pdes.commands.parser import new_parser, with_warnings
from pdes.errors import ConfigError

QUIET_S, SELDOM_S = 2.0, 1.0
DEFAULT_FILE = "calibrated.toml"
MEASURED = ("kernels", "collectives", "iterations", "flows")


def make_parser() -> argparse.ArgumentParser:
    """Its arguments."""
    text = (
        "Fit constants to what you have measured, and print the error of measurements that the fit did not know. The "
        "file that it writes is for [simulation] calibration. With --flow, measure congestion controls packet by "
        "packet instead, for flow mode; that file is for [wormhole.flow] calibration."
    )
    parser = new_parser("pdes-sim calibrate", text, calibrate)
    text = "what was measured: its GPU type, job and network; for --flow, a control in its [network]"
    parser.add_argument("config", metavar="CONFIG.toml", nargs="?", help=text)
    text = "times of kernels, as pdes-sim export kernels writes them: constants of the GPU type"
    parser.add_argument("--kernels", metavar="FILE.csv", type=Path, help=text)
    text = "collectives in a server, by nccl-tests or as CSV: latencies and bandwidths; may be repeated"
    parser.add_argument("--collectives", metavar="FILE", type=Path, action="append", default=[], help=text)
    text = "iteration times of jobs, a line each: constants of the GPU type, or what --key names"
    parser.add_argument("--iterations", metavar="FILE.csv", type=Path, help=text)
    text = "completion times of the config's flows: what --key names"
    parser.add_argument("--flows", metavar="FILE.csv", type=Path, help=text)
    text = "a key of the config to be fitted by simulation, between two values; may be repeated"
    parser.add_argument("--key", metavar="KEY=LOW..HIGH", dest="keys", action="append", default=[], help=text)
    text = "weights of the order of times (equation 3 of Arcadia) to choose from (default: 0,0.01,0.1,1)"
    parser.add_argument("--lambda", metavar="X,Y,..", dest="lambdas", help=text)
    text = "with --iterations: also a regression over the number of GPUs, as Arcadia aligns with production"
    parser.add_argument("--align", action="store_true", help=text)
    parser.add_argument("--flow", action="store_true", help="calibrate flow mode for congestion controls")
    text = "for --flow: a congestion control; may be repeated; without one and without a config, all built-in ones"
    parser.add_argument("--control", metavar="NAME", dest="controls", action="append", default=[], help=text)
    text = "the file to write (default: %(default)s)"
    parser.add_argument("-o", "--output", metavar="FILE", default=DEFAULT_FILE, help=text)
    return parser


def calibrate(arguments: argparse.Namespace) -> int:
    """Measure or read, fit, write, and print lines on each. Raises SimError."""
    measured = [name for name in MEASURED if getattr(arguments, name)]
    if arguments.flow:
        if measured or arguments.keys or arguments.align or arguments.lambdas:
            name = (measured or ["key" if arguments.keys else "align" if arguments.align else "lambda"])[0]
            raise ConfigError(f"--{name}", "is there, and so is --flow", "Accepted: one of the two")
        return _calibrate_flow_mode(arguments)
    if not measured:
        accepted = f"Accepted: --flow, or {', '.join('--' + name for name in MEASURED)}"
        raise ConfigError("pdes-sim calibrate", "is given no measurements", accepted)
    if arguments.config is None:
        raise ConfigError(f"--{measured[0]}", "without CONFIG.toml", "Accepted: with the config of what was measured")
    for given, name, needed in (
        (arguments.controls, "--control", "--flow"),
        (arguments.align and not arguments.iterations, "--align", "--iterations"),
        (arguments.keys and not (arguments.iterations or arguments.flows), "--key", "--iterations or --flows"),
    ):
        if given:
            raise ConfigError(name, f"is there, and {needed} is not", f"Accepted: with {needed}")
    return _calibrate_constants(arguments)


def _calibrate_constants(arguments: argparse.Namespace) -> int:
    from pdes.calibrating.fit import LAMBDAS
    from pdes.calibrating.keys import free_keys
    from pdes.calibrating.run import Asked, run, said
    from pdes.calibrating.write import write
    from pdes.simulation.calibration.calibrate import check_target

    target = Path(arguments.output)
    check_target(target)
    lambdas = LAMBDAS if arguments.lambdas is None else _lambdas(arguments.lambdas)
    asked = Asked(
        arguments.kernels, arguments.collectives, arguments.iterations, arguments.flows, free_keys(arguments.keys),
        lambdas, arguments.align,
    )  # fmt: skip
    with _Progress() as progress:
        found = run(arguments.config, asked, progress.say)
    for one in found:
        print("\n".join(said(one)), flush=True)
    write(found, _constant_words(arguments), target)
    print(f'written: {target}, for [simulation] calibration = "{target.name}"')
    return 0


def _lambdas(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = (math.nan,)
    if not all(0 <= value < math.inf for value in found):
        raise ConfigError(f"--lambda {text}", "is no list of numbers", "Accepted: numbers from 0, such as 0,0.1,1")
    return found


def _constant_words(arguments: argparse.Namespace) -> list[str]:
    """The command's arguments, in one order."""
    words = [arguments.config]
    for name in MEASURED:
        files = getattr(arguments, name)
        for file in files if isinstance(files, list) else [files] if files else []:
            words += [f"--{name}", str(file)]
    words += [word for key in arguments.keys for word in ("--key", key)]
    words += ["--lambda", arguments.lambdas] if arguments.lambdas else []
    words += ["--align"] if arguments.align else []
    return [*words, "-o", Path(arguments.output).name]


def _calibrate_flow_mode(arguments: argparse.Namespace) -> int:
    from pdes.config import load_config
    from pdes.simulation.calibration import calibrate as calibration

    config = None if arguments.config is None else with_warnings(load_config(arguments.config))
    target = Path(arguments.output)
    calibration.check_target(target)
    beds, found = calibration.beds(config, arguments.controls), []
    with _Progress() as progress:
        for i, bed in enumerate(beds, 1):
            place = f" ({i} of {len(beds)})" if len(beds) > 1 else ""
            found.append(calibration.calibrate(bed, lambda text, place=place: progress.say(text + place)))
            print(calibration.summary(found[-1]), flush=True)
    calibration.write_table(target, calibration.table_text(found, _words(arguments)))
    print(f"written: {target}")
    return 0


def _words(arguments: argparse.Namespace) -> list[str]:
    """The command's arguments, in one order."""
    config = [] if arguments.config is None else [arguments.config]
    controls = [word for name in arguments.controls for word in ("--control", name)]
    return ["--flow", *config, *controls, "-o", Path(arguments.output).name]


class _Progress:
    """Lines on stderr, once it takes longer than QUIET_S; then also what is under way just then."""

    def __init__(self) -> None:
        self._lock, self._is_loud, self._last, self._said_s = threading.Lock(), False, "", -SELDOM_S
        self._timer = threading.Timer(QUIET_S, self._speak_up)
        self._timer.daemon = True

    def __enter__(self) -> "_Progress":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def say(self, text: str) -> None:
        """What is being done from now on."""
        with self._lock:
            self._last = text
            if self._is_loud and time.monotonic() >= self._said_s + SELDOM_S:
                self._print()

    def _speak_up(self) -> None:
        with self._lock:
            self._is_loud = True
            self._print()

    def _print(self) -> None:
        self._said_s = time.monotonic()
        if self._last:
            print(f"pdes-sim: {self._last}", file=sys.stderr, flush=True)
