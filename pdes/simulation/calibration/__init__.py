"""Calibration of flow mode: its numbers of a congestion control, from small cases simulated packet by packet."""
