"""The arguments of `pdes-sim timeline`, and what it does."""

import argparse
import re
from pathlib import Path

from pdes.errors import ConfigError
from pdes.results.folder import DERIVED_FILES
from pdes.results.timeline.wanted import MOST_GPUS, MOST_SLICES, Wanted

FILE_NAME = DERIVED_FILES[1]
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


def add_timeline(parser: argparse.ArgumentParser) -> None:
    """Arguments of timeline."""
    parser.add_argument("directory", metavar="DIR", help="a result folder")
    parser.add_argument("-o", "--output", metavar="FILE", help=f"instead of {FILE_NAME} in the folder; .gz: compressed")
    text = f'such as "0-15,64"; default: the first ones of each pipeline stage, {MOST_GPUS} at most'
    parser.add_argument("--gpus", metavar="LIST", help=text)
    parser.add_argument("--iterations", metavar="LIST", help='such as "0-2"; default: all')
    parser.add_argument("--no-flows", dest="flows", action="store_false", help="leave out messages and their arrows")
    text = "a queue to draw over time; may be repeated. Default: the largest ones. Needs [output] sample_interval"
    parser.add_argument("--port", metavar="'NODE -> NODE'", dest="ports", action="append", default=[], help=text)
    text = f"slices of tasks at most, and as many of messages and points of queues; default {MOST_SLICES:,}"
    parser.add_argument("--most", metavar="N", type=int, default=MOST_SLICES, help=text)


def run_timeline(arguments: argparse.Namespace) -> None:
    """Write the trace; say on stdout where, how much, and what was left out. Raises ConfigError."""
    from pdes.results.opened import open_results, readable
    from pdes.results.timeline.write import write_timeline

    if arguments.most < 1:
        raise ConfigError("--most", f"found {arguments.most}", "Accepted: a number from 1 on")
    wanted = Wanted(
        gpus=None if arguments.gpus is None else parse_list(arguments.gpus, "--gpus"),
        iterations=None if arguments.iterations is None else parse_list(arguments.iterations, "--iterations"),
        has_flows=arguments.flows,
        ports=tuple(arguments.ports),
        most=arguments.most,
    )
    results = open_results(arguments.directory)
    path = results.folder / FILE_NAME if arguments.output is None else Path(arguments.output)
    with readable(results.folder):
        said = write_timeline(results, wanted, path)
    for line in said:
        print(line)


def parse_list(text: str, where: str) -> frozenset[int]:
    """Numbers from text such as "0-15,64". Raises ConfigError."""
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last - first > 10**6:
            raise ConfigError(where, f'found "{text}"', 'Accepted: numbers and ranges, such as "0-15,64"')
        found |= set(range(first, last + 1))
    return frozenset(found)
