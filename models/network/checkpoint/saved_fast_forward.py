"""Fast-forwarding in a checkpoint: what ranks decide alike is saved once, as it is; what each has of it, by each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.network.restore.learned_depths import LearnedDepths
from models.network.round_looks import SEEN_POSTED
from models.network.skip.fast_forward import FastForward
from models.network.skip.room import Claim, Room
from models.network.skip.wave_states import WaveStates
from models.network.state.ways import ports_of_pairs

ALIKE = ("_controller", "waves", "series", "_level_ps", "limit_ps", "held_ps", "_later")
DEPTHS = ("_trace", "_seen", "_n_look")


def save_alike(fast: FastForward) -> dict[str, Any]:
    """What is the same on every rank, all in one: parts of it refer to each other."""
    depths, room = _depths(fast), fast.suspension.room
    return {
        "fast": {name: getattr(fast, name) for name in ALIKE},
        "watched": None if fast.replays is None else fast.replays.watched,
        "words": fast._round_look_words,
        "advance_sent": fast.hidden.advance_sent,
        "late_bytes": None if fast.wave_states is None else fast.wave_states._late_bytes,
        "since_ps": None if room is None else room._since_ps,
        "fluid": None if fast.fluid is None else fast.fluid.fluid,
        "epoch": None if fast.routes is None else fast.routes.epoch,
        "depths": None if depths is None else {name: getattr(depths, name) for name in DEPTHS},
    }


def save_own(fast: FastForward) -> dict[str, Any]:
    """This rank's part."""
    skipped, room = fast.skipped, fast.suspension.room
    return {
        "hops": dict(skipped.hops_by_cause),
        "flow_ps": dict(skipped.flow_ps_by_cause),
        "seen_posted": int(fast._round_look_words[SEEN_POSTED]),
        "twice": None if fast.wave_states is None else fast.wave_states._twice,
        "fluid_twice": None if fast.fluid is None else fast.fluid._twice,
        "held": {} if room is None else {k: (pair, *claim) for k, (claim, pair) in room._held.items()},
    }


def load_fast_forward(
    fast: FastForward, alike: dict[str, Any], parts: Sequence[dict[str, Any]], held: Sequence[dict[int, Any]],
    is_first: bool,
) -> None:  # fmt: skip
    """Go on from what was saved. held: of all ranks. is_first: this rank takes what adds up in parts."""
    for name in ALIKE:
        setattr(fast, name, alike["fast"][name])
    fast.frozen, suspension = fast._controller.frozen, fast.suspension
    if fast.replays is not None:
        fast.replays.watched = alike["watched"]
    if fast.routes is not None:
        fast.routes.enter(alike["epoch"])
        fast.ways = ports_of_pairs(fast.routes.pairs)
        if suspension.room is not None:
            suspension.room.reroute(fast.routes.pairs)
    fast._looks = None  # it holds what was there before
    fast._round_look_words[:] = alike["words"]
    fast.hidden.advance_sent[:] = alike["advance_sent"]
    fast._round_look_words[SEEN_POSTED] = sum(part["seen_posted"] for part in parts) if is_first else 0
    for counts, name in ((fast.skipped.hops_by_cause, "hops"), (fast.skipped.flow_ps_by_cause, "flow_ps")):
        for cause in counts:
            counts[cause] = sum(part[name][cause] for part in parts) if is_first else 0
    if fast.wave_states is not None:
        _load_waves(fast.wave_states, alike, parts, is_first)
    if fast.fluid is not None:
        twice = np.sum([part["fluid_twice"] for part in parts], axis=0) if is_first else 0
        fast.fluid.go_on(alike["fluid"], twice)
    if suspension.room is not None:
        _load_room(suspension.room, alike["since_ps"], held, fast.hidden.here)
    depths = _depths(fast)
    if depths is not None:
        for name in DEPTHS:
            setattr(depths, name, alike["depths"][name])


def _depths(fast: FastForward) -> LearnedDepths | None:
    restoration = fast.suspension.restoration
    depths = None if restoration is None else restoration.depths
    return depths if isinstance(depths, LearnedDepths) else None


def _load_waves(
    states: WaveStates, alike: dict[str, Any], parts: Sequence[dict[str, Any]], is_first: bool
) -> None:  # fmt: skip
    states._late_bytes[:] = alike["late_bytes"]
    states._twice[:] = np.sum([part["twice"] for part in parts], axis=0) if is_first else 0


def _load_room(room: Room, since_ps: np.ndarray, held: Sequence[dict[int, Any]], here: np.ndarray) -> None:
    """Claims as far as they are at this rank's switches."""
    room._since_ps[:] = since_ps
    room._held, room._limits = {}, {}
    for first, (pair, *_) in held[0].items():
        rows = np.concatenate([np.stack(each[first][1:]) for each in held], axis=1)
        rows = rows[:, here[rows[0]] != 0]
        claim = Claim(*rows[:, np.argsort(rows[0], kind="stable")])
        room._held[first] = claim, pair
        for node, limit_bytes in zip(claim.node.tolist(), claim.limit_bytes.tolist(), strict=True):
            room._limits.setdefault(node, {})[first] = limit_bytes
