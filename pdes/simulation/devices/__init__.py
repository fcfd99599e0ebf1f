"""Runs on other engines than the one of `models.network.rounds`: windows of lookahead on a GPU, or on this CPU."""

from typing import Literal

Device = Literal["cpu", "cpu-windows", "cuda"]
DEVICES: tuple[Device, ...] = ("cpu", "cpu-windows", "cuda")
"""cpu: the usual engine. cuda: windows on a GPU. cpu-windows: the same source, compiled for this CPU."""
