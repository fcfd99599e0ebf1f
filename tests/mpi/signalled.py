"""Runs the program with a signal that its last rank gets at a certain round.

mpirun -n 4 python tests/mpi/signalled.py ROUND config.toml --out DIR ...
"""

import signal
import sys
from typing import Any
from unittest import mock

from pdes import cli
from pdes.engine.round import N_ROUND
from pdes.simulation.checkpoints import take


def main() -> int:
    """The program's status."""
    tick, is_sent = take.Checkpoints.tick, [False]

    def tick_and_signal(checkpoints: Any) -> None:
        job = checkpoints._job
        if job.world.rank == job.world.size - 1 and not is_sent[0] and job.loop[N_ROUND] >= int(sys.argv[1]):
            is_sent[0] = True
            signal.raise_signal(signal.SIGTERM)
        tick(checkpoints)

    with (
        mock.patch.object(take.Checkpoints, "tick", tick_and_signal),
        mock.patch("pdes.simulation.loop.PAUSE_EVERY_S", 0),
    ):
        return cli.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
