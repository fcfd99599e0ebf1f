"""Which layers a pipeline stage has."""

from itertools import accumulate

from models.compute.layout import Layout
from models.compute.model_shape import ModelShape


def ends_are_layers(shape: ModelShape, layout: Layout) -> bool:
    """Whether embedding and head count as a layer each where layers are shared out, see `stage_layers`."""
    n_chunk = layout.pp * layout.vpp
    return not layout.stage_layers and shape.layers % n_chunk != 0 and (shape.layers + 2) % n_chunk == 0


def place_of(layout: Layout, stage: int, chunk: int) -> int:
    """Where a chunk of a stage is among all of the model: 0 has the embedding, the last one the head."""
    if not layout.dual:
        return chunk * layout.pp + stage
    half = min(stage, layout.pp - 1 - stage)
    return (half, layout.pp - 1 - half)[chunk]


def has_part(layout: Layout, stage: int, part: str) -> bool:
    """Whether a stage has the "embedding" or the "head"."""
    place = 0 if part == "embedding" else layout.pp * layout.vpp - 1
    return place in (place_of(layout, stage, chunk) for chunk in range(layout.n_chunk))


def stage_layers(shape: ModelShape, layout: Layout, stage: int) -> tuple[tuple[int, ...], ...]:
    """Layers of each of a stage's chunks: as the layout says, else as even as can be.

    As many in each if that comes out even; else, if it does then, with embedding and head counted as a layer each, so
    that the first and the last chunk have one less (as for LLaMA 3 405B: 126 layers on 16 stages; Qi et al. 2024); else
    as even as can be.
    """
    n_chunk, n_layer = layout.pp * layout.vpp, shape.layers
    if layout.stage_layers:
        bounds = [0, *accumulate(layout.stage_layers)]
    elif ends_are_layers(shape, layout):
        each = (n_layer + 2) // n_chunk
        bounds = [0, *(i * each - 1 for i in range(1, n_chunk)), n_layer]
    else:
        bounds = [i * n_layer // n_chunk for i in range(n_chunk + 1)]
    chunks = (place_of(layout, stage, chunk) for chunk in range(layout.n_chunk))
    return tuple(tuple(range(bounds[c], bounds[c + 1])) for c in chunks)
