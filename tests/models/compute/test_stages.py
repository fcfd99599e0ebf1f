"""Every layer is on one stage, in order, and stages are even where they can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.compute.layout import Layout
from models.compute.model_shape import ModelShape
from models.compute.stages import stage_layers


@given(layers=st.integers(1, 200), pp=st.integers(1, 32), vpp=st.integers(1, 6))
def test_chunks_follow_each_other_over_the_stages(layers: int, pp: int, vpp: int) -> None:
    shape, layout = ModelShape(layers, 64, 8), Layout(pp=pp, vpp=vpp)
    stages = [stage_layers(shape, layout, stage) for stage in range(pp)]
    in_order = [i for chunk in range(vpp) for stage in range(pp) for i in stages[stage][chunk]]
    assert in_order == list(range(layers))


@pytest.mark.parametrize(
    "layers, pp, vpp, sizes",
    [
        (8, 4, 1, [[2], [2], [2], [2]]),
        (8, 2, 2, [[2, 2], [2, 2]]),
        (6, 4, 1, [[1], [2], [2], [1]]),  # embedding and head count as a layer
        (22, 8, 3, [[0, 1, 1], *[[1, 1, 1]] * 6, [1, 1, 0]]),
        (5, 3, 1, [[1], [2], [2]]),
    ],
)
def test_layers_of_a_stage(layers: int, pp: int, vpp: int, sizes: list[list[int]]) -> None:
    shape, layout = ModelShape(layers, 64, 8), Layout(pp=pp, vpp=vpp)
    assert [[len(chunk) for chunk in stage_layers(shape, layout, stage)] for stage in range(pp)] == sizes
