"""What the keys of [wormhole] must satisfy together."""

from collections.abc import Iterator

from pdes.config.tables.fields import Fault, Table
from pdes.config.wormhole.flow import CALIBRATED, FlowConfig
from pdes.config.wormhole.table import CRITERION_KEYS, MAY_USE, PaperConfig, WormholeConfig
from pdes.units import shown

HOME, PAPER = ("wormhole",), ("wormhole", "paper")


def wormhole_faults(wormhole: Table | None) -> Iterator[Fault]:
    """All of them. wormhole: None if the table is not valid by itself."""
    if not isinstance(wormhole, WormholeConfig):
        return
    mode = shown(wormhole.mode)
    if "tolerance" in wormhole.model_fields_set and wormhole.mode != "auto":
        yield Fault((*HOME, "tolerance"), f"is there, but mode is {mode}", 'Accepted: with mode = "auto"')
    if wormhole.may_skip and not wormhole.uses:
        choice = " and ".join(map(shown, MAY_USE[wormhole.mode]))
        found = f"has none that mode {mode} allows"
        yield Fault((*PAPER, "forecasts"), found, f"Accepted: at least one of {choice}")
    elif wormhole.memo is not None and not wormhole.may_skip:
        yield Fault((*HOME, "memo"), f"is there, but mode is {mode}", 'Accepted: with mode = "exact" or "auto"')
    elif wormhole.memo is not None and "replay" not in wormhole.uses:
        found = "is there, but forecasts below [wormhole.paper] have no replay"
        yield Fault((*HOME, "memo"), found, 'Accepted: with "replay" in forecasts')
    yield from _flow_faults(wormhole)
    yield from _calibration_faults(wormhole.flow)
    yield from _criterion_faults(wormhole.paper)
    yield from _restoration_faults(wormhole.paper)


def _flow_faults(wormhole: WormholeConfig) -> Iterator[Fault]:
    """[wormhole.flow] in another mode: where messages go at rates beside packets, the calibration is its."""
    if "flow" not in wormhole.model_fields_set or wormhole.mode == "flow":
        return
    accepted = 'Accepted: with mode = "flow"'
    if "fair" not in wormhole.uses:
        yield Fault((*HOME, "flow"), f"is there, but mode is {shown(wormhole.mode)}", accepted)
        return
    for key in sorted(wormhole.flow.model_fields_set - {"calibration"}):
        yield Fault((*HOME, "flow", key), 'is there, but the forecast is "fair"', accepted)


def _calibration_faults(flow: FlowConfig) -> Iterator[Fault]:
    """A file that nobody would read."""
    place, accepted = (*HOME, "flow", "calibration"), f"Accepted: with efficiency = {shown(CALIBRATED)}"
    if flow.calibration is not None and flow.efficiency != CALIBRATED:
        yield Fault(place, f"is there, but efficiency is {shown(flow.efficiency)}", accepted)
    elif flow.calibration is not None and flow.compensation == "none":
        yield Fault(place, 'is there, but compensation is "none"', 'Accepted: with compensation = "forwarding"')


def _criterion_faults(paper: PaperConfig) -> Iterator[Fault]:
    """Keys of another criterion than the one chosen."""
    for name, field in type(paper).model_fields.items():
        names = CRITERION_KEYS.get(name, (paper.criterion,))
        if name in paper.model_fields_set and paper.criterion not in names:
            choice = " or ".join(shown(name) for name in names)
            found = f"is there, but criterion is {shown(paper.criterion)}"
            yield Fault((*PAPER, field.alias or name), found, f"Accepted: with criterion = {choice}")


def _restoration_faults(paper: PaperConfig) -> Iterator[Fault]:
    """A model without a use for it, or the other way round."""
    is_learned = paper.restoration == "learned"
    if is_learned and paper.restoration_model is None:
        found = 'is missing, and restoration is "learned"'
        yield Fault((*PAPER, "restoration_model"), found, "Accepted: a file of a trained model")
    if not is_learned and paper.restoration_model is not None:
        found = f"is there, but restoration is {shown(paper.restoration)}"
        yield Fault((*PAPER, "restoration_model"), found, 'Accepted: with restoration = "learned"')
