"""`pdes-sim calibrate --flow [CONFIG.toml] -o FILE`: flow mode's numbers of congestion controls, from packets."""

import argparse
import sys
import threading
from pathlib import Path

from pdes.commands.parser import new_parser, with_warnings

QUIET_S = 2.0
DEFAULT_FILE = "calibrated.toml"


def make_parser() -> argparse.ArgumentParser:
    """Its arguments."""
    text = (
        "Measure congestion controls packet by packet in small cases, and fit flow mode's numbers to them. The file "
        "that it writes is for [wormhole.flow] calibration."
    )
    parser = new_parser("pdes-sim calibrate", text, calibrate)
    parser.add_argument("--flow", action="store_true", required=True, help='what is calibrated: [wormhole] mode "flow"')
    text = "its [network], line rate and round trip, in place of defaults; without --control, the control that it names"
    parser.add_argument("config", metavar="CONFIG.toml", nargs="?", help=text)
    text = "a congestion control; may be repeated; without one and without a config, all built-in ones"
    parser.add_argument("--control", metavar="NAME", dest="controls", action="append", default=[], help=text)
    text = "the file to write (default: %(default)s)"
    parser.add_argument("-o", "--output", metavar="FILE", default=DEFAULT_FILE, help=text)
    return parser


def calibrate(arguments: argparse.Namespace) -> int:
    """Measure, fit, write, and print a line for each control. Raises SimError."""
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
        self._lock, self._is_loud, self._last = threading.Lock(), False, ""
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
            if self._is_loud:
                self._print()

    def _speak_up(self) -> None:
        with self._lock:
            self._is_loud = True
            self._print()

    def _print(self) -> None:
        if self._last:
            print(f"pdes-sim: {self._last}", file=sys.stderr, flush=True)
