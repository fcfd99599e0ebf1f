"""What a command says on stderr when it fails: a line for people, or with --json an object for programs."""

import json
import sys
from typing import TYPE_CHECKING

from pdes.errors import ConfigError, SimError

if TYPE_CHECKING:
    from pdes.engine.exchange import World


def complain(error: SimError, comm: "World | None" = None, as_json: bool = False) -> None:
    """Print an error that has been expected: its text is all that a user needs."""
    if not as_json:
        print(f"pdes-sim: error{on_rank(comm)}: {error}", file=sys.stderr)
        return
    found: dict[str, object] = {"error": str(error), "kind": type(error).__name__, "status": error.exit_status}
    if isinstance(error, ConfigError):
        found |= {"where": error.where, "found": error.found, "accepted": error.accepted}
    complain_in_json(found, comm)


def complain_in_json(found: dict[str, object], comm: "World | None" = None) -> None:
    """Print one line that a program can read."""
    rank = 0 if comm is None else comm.rank
    print(json.dumps(found | {"rank": rank}, sort_keys=True), file=sys.stderr, flush=True)


def on_rank(comm: "World | None") -> str:
    """ " on rank 1 of 2", nothing if there is one rank."""
    return f" on rank {comm.rank} of {comm.size}" if comm is not None and comm.size > 1 else ""
