"""Finding the checkpoint to go on from, and the scenario in it, with the places of its files as they are now."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from pdes.checkpoint_places import place_of
from pdes.engine.checkpoint_folder import Checkpoint, find_checkpoint
from pdes.scenario import Scenario
from pdes.simulation.checkpoints.files import SCENARIO, read_part
from pdes.simulation.versions import program


def find(directory: str, out: str | None) -> tuple[Checkpoint, Scenario]:
    """The newest whole checkpoint of a folder, and what it is of. ConfigError: there is none that can be used.

    directory: of checkpoints, of one of them, or of results with checkpoints in it.

    out: the result folder, None: the run's own.
    """
    found = find_checkpoint(place_of(directory), program(), warn)
    scenario: Scenario = read_part(found.path, SCENARIO)
    config, folder = scenario.config, Path(found.facts["folder"])
    tables: dict[str, Any] = {
        "output": config.output.model_copy(update={"dir": out or found.facts["output"]}),
        "checkpoint": config.checkpoint.model_copy(update={"dir": str(found.path.parent.absolute())}),
    }
    if config.wormhole.memo is not None:
        tables["wormhole"] = config.wormhole.model_copy(update={"memo": str(folder / config.wormhole.memo)})
    return found, replace(scenario, config=config.model_copy(update=tables))


def warn(text: str) -> None:
    """Of a checkpoint that cannot be used."""
    print(f"pdes-sim: warning: {text}", file=sys.stderr, flush=True)
