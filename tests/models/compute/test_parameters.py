"""The optimizer's time by closed form."""

import pytest

from models.compute.devices import Device, Fit, peaks_of
from models.compute.layout import Layout
from models.compute.parameters import OPTIMIZER_LAUNCHES, optimizer_ps
from models.compute.presets import PRESETS

DEVICE = Device("round", peaks_of(100), 10**12, 10**10, 10**12, Fit(memory_gamma=2.0, launch_ps=1000, rows=("a",)))


@pytest.mark.parametrize(
    "layout, bytes_per_parameter",
    [
        (Layout(), 3 * 4 + 6 * 4 + 2),
        (Layout(precision="fp16"), 3 * 2 + 6 * 4 + 2),
        (Layout(gradient_dtype="bf16", optimizer_dtype="bf16"), 3 * 2 + 6 * 2 + 2),
    ],
)
def test_adam_moves_its_states(layout: Layout, bytes_per_parameter: int) -> None:
    time_ps = optimizer_ps(PRESETS["gpt-7b"], layout, DEVICE, 10**9)
    assert time_ps == pytest.approx(2 * bytes_per_parameter * 10**9 + OPTIMIZER_LAUNCHES * 1000, abs=2)
