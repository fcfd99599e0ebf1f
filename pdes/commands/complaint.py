"""What a command says on stderr when it fails."""

import sys
from typing import TYPE_CHECKING

from pdes.errors import SimError

if TYPE_CHECKING:
    from pdes.engine.exchange import World


def complain(error: SimError, comm: "World | None" = None) -> None:
    """Print an error that has been expected: its text is all that a user needs."""
    print(f"pdes-sim: error{on_rank(comm)}: {error}", file=sys.stderr)


def on_rank(comm: "World | None") -> str:
    """ " on rank 1 of 2", nothing if there is one rank."""
    return f" on rank {comm.rank} of {comm.size}" if comm is not None and comm.size > 1 else ""
