"""Which layers a pipeline stage has."""

from models.compute.layout import Layout
from models.compute.model_shape import ModelShape


def ends_are_layers(shape: ModelShape, layout: Layout) -> bool:
    """Whether embedding and head count as a layer each where layers are shared out, see `stage_layers`."""
    n_chunk = layout.pp * layout.vpp
    return shape.layers % n_chunk != 0 and (shape.layers + 2) % n_chunk == 0


def stage_layers(shape: ModelShape, layout: Layout, stage: int) -> tuple[tuple[int, ...], ...]:
    """Layers of each of a stage's vpp chunks; chunk c of stage i is the (c pp + i)-th of all.

    As many in each if that comes out even; else, if it does then, with embedding and head counted as a layer each, so
    that the first and the last chunk have one less (as for LLaMA 3 405B: 126 layers on 16 stages; Qi et al. 2024); else
    as even as can be.
    """
    n_chunk, n_layer = layout.pp * layout.vpp, shape.layers
    if ends_are_layers(shape, layout):
        each = (n_layer + 2) // n_chunk
        bounds = [0, *(i * each - 1 for i in range(1, n_chunk)), n_layer]
    else:
        bounds = [i * n_layer // n_chunk for i in range(n_chunk + 1)]
    chunks = (c * layout.pp + stage for c in range(layout.vpp))
    return tuple(tuple(range(bounds[c], bounds[c + 1])) for c in chunks)
