"""`pdes-sim config.toml` with a table [cluster], or --resume of such a run: on rank 0."""

import argparse
import json
import signal
import sys
from typing import TYPE_CHECKING

from pdes.commands.complaint import complain
from pdes.errors import SimError
from pdes.launcher import read_launch

if TYPE_CHECKING:
    from pdes.config.cluster.load import Loaded

ONLY_PACKETS = ("trace", "condition", "until", "check", "check_every", "python", "tolerant")


def run_cluster_config(arguments: argparse.Namespace) -> int:
    """The exit status. Ranks but the first have nothing to do: one run takes one core."""
    if read_launch().rank:
        return 0
    try:
        return _run(arguments)
    except SimError as error:
        complain(error, None, arguments.json)
        return error.exit_status
    except KeyboardInterrupt:
        print("pdes-sim: interrupted", flush=True)
        return 130


def _run(arguments: argparse.Namespace) -> int:
    from pdes.checkpoint_requests import STOPS, Requests
    from pdes.cluster.checkpoints import StoppedError
    from pdes.cluster.run import every_s, resume_cluster, run_cluster

    with Requests(None, heeds_signals=True, stops=(*STOPS, signal.SIGINT)) as requests:
        try:
            if arguments.resume is not None:
                result, folder = resume_cluster(arguments.resume, arguments.out, arguments.quiet, requests)
            else:
                loaded = _loaded(arguments)
                requests.set_interval(every_s(loaded))
                result, folder = run_cluster(loaded, arguments.quiet, requests), loaded.run.output.dir
        except StoppedError as stopped:
            print(f"pdes-sim: {stopped}", file=sys.stderr, flush=True)
            return stopped.exit_status
    if arguments.json:
        print(json.dumps({"output": folder} | result), flush=True)
    return 0


def _loaded(arguments: argparse.Namespace) -> "Loaded":
    from pdes.config.cluster.load import load_cluster
    from pdes.errors import ConfigError

    for name in ONLY_PACKETS:
        if getattr(arguments, name):
            flag = {"condition": "break"}.get(name, name).replace("_", "-")
            raise ConfigError(f"--{flag}", "the config has [cluster], which has no packets", "Accepted: without it")
    overrides = list(arguments.overrides)
    if arguments.out is not None:
        overrides.append(f"output.dir={json.dumps(arguments.out, ensure_ascii=False)}")
    return load_cluster(arguments.config, overrides)
