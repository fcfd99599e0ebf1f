"""`pdes-sim config.toml` with a table [cluster], or --resume of such a run: on rank 0."""

import argparse
import json
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from pdes.commands.complaint import complain
from pdes.errors import SimError
from pdes.launcher import read_launch

if TYPE_CHECKING:
    from pdes.cluster.iterations.speeds import RunAll
    from pdes.config.cluster.load import Loaded

ONLY_PACKETS = ("alone", "trace", "condition", "until", "check", "check_every", "python", "tolerant", "device")


def run_cluster_config(arguments: argparse.Namespace) -> int:
    """The exit status. Ranks but the first run iteration times, if the config wants any."""
    from pdes.workers import workers

    try:
        if not _wants_workers(arguments.config):
            return 0 if read_launch().rank else _run(arguments)
        with workers() as run_all:
            return 0 if run_all is None else _run(arguments, run_all)
    except SimError as error:
        complain(error, None, arguments.json)
        return error.exit_status
    except KeyboardInterrupt:
        print("pdes-sim: interrupted", file=sys.stderr, flush=True)
        return 130


def _wants_workers(config: str | None) -> bool:
    """Whether a config, readable and of the cluster level, has [cluster.runs]. None: of a run that goes on."""
    from pdes.config.toml_file import read_toml
    from pdes.errors import ConfigError

    if config is None:
        return False
    try:
        data, _ = read_toml(Path(config))
    except ConfigError:
        return False
    cluster = data.get("cluster")
    return isinstance(cluster, dict) and "runs" in cluster


def _run(arguments: argparse.Namespace, run_all: "RunAll | None" = None) -> int:
    from pdes.checkpoint_requests import STOPS, Requests
    from pdes.cluster.checkpoints import StoppedError
    from pdes.cluster.run import every_s, resume_cluster, run_cluster
    from pdes.workers import here

    is_main = threading.current_thread() is threading.main_thread()  # others get no signals
    with Requests(None, heeds_signals=is_main, stops=(*STOPS, signal.SIGINT)) as requests:
        try:
            if arguments.resume is not None:
                asked = (arguments.resume, arguments.out, arguments.quiet, requests, run_all or here)
                result, folder = resume_cluster(*asked)
            else:
                loaded = _loaded(arguments)
                requests.set_interval(every_s(loaded))
                result = run_cluster(loaded, arguments.quiet, requests, run_all or here)
                folder = loaded.run.output.dir
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
        if getattr(arguments, name, None) not in (None, False, "cpu"):
            flag = {"condition": "break"}.get(name, name).replace("_", "-")
            raise ConfigError(f"--{flag}", "the config has [cluster], which has no packets", "Accepted: without it")
    overrides = list(arguments.overrides)
    if arguments.out is not None:
        overrides.append(f"output.dir={json.dumps(arguments.out, ensure_ascii=False)}")
    return load_cluster(arguments.config, overrides)
