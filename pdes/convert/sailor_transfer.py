"""Times of layers on a type of GPU on which a model was not measured, from another type on which it was.

HeteroSim's transfer (WWW'26, equation 5) takes a kernel's time on a measured GPU times a ratio of data sheets. Here the
ratio is measured, too: of another model, which was measured on both types. Of that model the microbatch is taken whose
layer takes about as long on the type that both have, at the same tensor-parallel size; forward, backward and update
have a ratio each.
"""

from collections.abc import Mapping
from math import log
from typing import NamedTuple

Rows = list[tuple[object, ...]]
"""Of a file of [workload.devices.NAME] layer_times."""
Times = tuple[float, float, float]
ByGpu = Mapping[str, Rows]


class Transfer(NamedTuple):
    """rows: of the type that was not measured. reference: the type, like: the model by which."""

    rows: Rows
    reference: str
    like: str


def transferred(gpu: str, own: ByGpu, others: Mapping[str, ByGpu]) -> Transfer | None:
    """own: what was measured of the model, by type. others: the same of other models. None: nothing leads there."""
    found = []
    for reference, rows in own.items():
        for like, by_gpu in others.items():
            if rows and reference != gpu and by_gpu.get(reference) and by_gpu.get(gpu):
                new = _scaled(rows, by_gpu[reference], by_gpu[gpu])
                has_updates = any(float(str(row[5])) > 0 for row in new)
                found.append((has_updates, len(new), Transfer(new, reference, like)))
    return max(found, key=lambda each: each[:2])[2] if found and max(found, key=lambda each: each[:2])[1] else None


def _scaled(rows: Rows, there: Rows, here: Rows) -> Rows:
    """rows, there: of two models on one type; here: of the second one on another type."""
    own, one, other = (_layers(each) for each in (rows, there, here))
    found: Rows = []
    for tp, microbatch, part, *times in rows:
        key = int(str(tp)), int(str(microbatch))
        alike = [each for each in one if each[0] == key[0] and each in other]
        if key not in own or not alike:
            continue
        nearest = min(alike, key=lambda each: abs(log(sum(one[each][:2]) / sum(own[key][:2]))))
        ratios = [b / a if a > 0 else 0.0 for a, b in zip(one[nearest], other[nearest], strict=True)]
        scaled = (f"{float(str(time)) * ratio:.3f}" for time, ratio in zip(times, ratios, strict=True))
        found.append((tp, microbatch, part, *scaled))
    return found


def _layers(rows: Rows) -> dict[tuple[int, int], Times]:
    """Times of a layer by (tp, microbatch)."""
    found: dict[tuple[int, int], Times] = {}
    for tp, microbatch, part, forward, backward, update in rows:
        if part == "layer":
            found[int(str(tp)), int(str(microbatch))] = (
                float(str(forward)), float(str(backward)), float(str(update)),
            )  # fmt: skip
    return found
