"""`pdes-sim config.toml` with a table [cluster]: a run of the cluster level, on rank 0."""

import argparse
import json

from pdes.commands.complaint import complain
from pdes.errors import SimError
from pdes.launcher import read_launch

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
    from pdes.cluster.run import run_cluster
    from pdes.config.cluster.load import load_cluster
    from pdes.errors import ConfigError

    for name in ONLY_PACKETS:
        if getattr(arguments, name):
            flag = {"condition": "break"}.get(name, name).replace("_", "-")
            raise ConfigError(f"--{flag}", "the config has [cluster], which has no packets", "Accepted: without it")
    overrides = list(arguments.overrides)
    if arguments.out is not None:
        overrides.append(f"output.dir={json.dumps(arguments.out, ensure_ascii=False)}")
    loaded = load_cluster(arguments.config, overrides)
    result = run_cluster(loaded, arguments.quiet)
    if arguments.json:
        print(json.dumps({"output": loaded.run.output.dir} | result), flush=True)
    return 0
