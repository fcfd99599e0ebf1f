"""What rank 0 does before a run: build and check all of it, and open the result folder."""

from collections.abc import Callable

from pdes.checkpoint_places import check_directory
from pdes.config import Config
from pdes.debug.options import DebugOptions, resolve
from pdes.results.folder import ResultFolder
from pdes.scenario import Scenario
from pdes.simulation.checkpoints.resume import find
from pdes.simulation.devices import Device
from pdes.simulation.devices.refusals import check_device
from pdes.simulation.memory import check_memory, within_memory
from pdes.simulation.preparation.placing import build_placed
from pdes.simulation.preparation.prepared import Prepared
from pdes.simulation.restoration import read_queue_model
from pdes.simulation.shared_memo import read_memo

NO_DEBUG = DebugOptions()


def prepare(
    config: Config, quiet: bool = False, n_rank: int = 1, n_rank_here: int = 1, options: DebugOptions = NO_DEBUG,
    device: Device = "cpu",
) -> Prepared:  # fmt: skip
    """Check everything and open the result folder. Raises SimError; on rank 0 only.

    n_rank: of the run; n_rank_here: of them, on this machine. device: see `devices`.
    """

    def build() -> Scenario:
        scenario = build_placed(config)
        check_device(device, scenario, n_rank, options != NO_DEBUG)
        return scenario

    prepared = _prepare(config, build, n_rank, n_rank_here, options)
    prepared.device = device
    return prepared


def prepare_resumed(
    directory: str, out: str | None, quiet: bool = False, n_rank: int = 1, n_rank_here: int = 1
) -> Prepared:
    """The same of a run that goes on from a checkpoint. directory: of checkpoints. out: None: the run's own."""
    found, scenario = find(directory, out)
    prepared = _prepare(scenario.config, lambda: scenario, n_rank, n_rank_here)
    prepared.resumed = found
    return prepared


def _prepare(
    config: Config, build: Callable[[], Scenario], n_rank: int, n_rank_here: int,
    options: DebugOptions = NO_DEBUG,
) -> Prepared:  # fmt: skip
    memo = read_memo(config.wormhole)
    with within_memory(config):
        scenario = build()
    check_memory(scenario, n_rank, n_rank_here)
    queue_model, debug = read_queue_model(scenario), resolve(options, scenario)
    folder = ResultFolder(config.output.dir)
    try:
        folder.check()
        check_directory(config, folder)
    except BaseException:
        folder.abandon()
        raise
    prepared = Prepared(scenario, folder)
    prepared.memo, prepared.queue_model, prepared.debug = memo, queue_model, debug
    return prepared
