"""[wormhole.paper] restoration: what it needs is there, or the run stops before it simulates anything; its parts."""

from models.network.model import NetworkModel
from models.network.restore.learned_depths import LearnedDepths
from models.network.restore.make_restoration import make_restoration
from models.network.restore.restoration import Restoration, why_no_restoration
from models.network.skip.fast_forward import FastForward
from models.network.skip.make_fast_forward import why_not
from pdes.engine.exchange import World
from pdes.errors import ConfigError
from pdes.scenario import Scenario
from pdes.skipping.papers.queue_model import QueueModel, QueueModelError, load_model
from pdes.units import shown


def read_queue_model(scenario: Scenario) -> QueueModel | None:
    """The model that a config names, None if it needs none. ConfigError: partitions cannot be restored so."""
    wormhole, parameters = scenario.config.wormhole, scenario.parameters
    paper = wormhole.paper
    if not wormhole.may_skip or paper.restoration == "snapshot" or why_not(parameters):
        return None
    is_learned = paper.restoration == "learned"
    why = why_no_restoration(parameters, is_learned)
    where = f"{scenario.config.source}: [wormhole.paper] restoration"
    if why:
        raise ConfigError(where, f"found {shown(paper.restoration)}, but {why}", 'Accepted: "snapshot"')
    if not is_learned:
        return None
    assert paper.restoration_model is not None
    path = scenario.config.input_path(paper.restoration_model)
    try:
        return load_model(path)
    except QueueModelError as error:
        raise ConfigError(
            f"{where}_model", f"{path}: {error}", "Accepted: what bench/hygra_restoration.py has trained"
        ) from error


def restoration_of(
    scenario: Scenario, model: NetworkModel, world: World, fast: FastForward, queue_model: QueueModel | None
) -> Restoration | None:
    """One rank's part; None: what is frozen comes back as it was. queue_model: on rank 0."""
    kind, topology = scenario.config.wormhole.paper.restoration, scenario.topology
    if kind == "snapshot":
        return None
    found = make_restoration(topology, model, scenario.parameters, world, fast, None)
    if kind == "learned":
        n_step = world.bcast(None if queue_model is None else queue_model.shape.n_step)
        sends_here = fast.hidden.here[topology.port_src] != 0
        found.depths = LearnedDepths(found.ways, n_step, sends_here, world, queue_model)
    return found
