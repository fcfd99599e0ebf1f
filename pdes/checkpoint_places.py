"""Where the checkpoints of a run go."""

from pathlib import Path

from pdes.config import Config
from pdes.config.cluster.table import ClusterRun
from pdes.engine.checkpoint_folder import CheckpointFolder
from pdes.errors import ConfigError
from pdes.results.folder import ResultFolder, is_complete

DEFAULT_NAME = "checkpoint"  # of the folder, in that of the results


def checkpoint_directory(config: Config | ClusterRun) -> Path:
    """The folder that has a run's checkpoints."""
    return Path(config.checkpoint.dir or Path(config.output.dir) / DEFAULT_NAME)


def place_of(directory: str) -> Path:
    """The folder with checkpoints that is meant: of checkpoints, one of them, or of results with checkpoints in it."""
    place = Path(directory)
    return place / DEFAULT_NAME if is_complete(place) or (place / DEFAULT_NAME).is_dir() else place


def check_directory(config: Config | ClusterRun, results: ResultFolder) -> None:
    """Prove that checkpoints can be written, where they will be without anybody's asking. ConfigError: they cannot."""
    if config.checkpoint.every_ps is not None:
        try:
            CheckpointFolder(checkpoint_directory(config), config.checkpoint.keep, results.token).check()
        except ConfigError:
            results.abandon()
            raise
