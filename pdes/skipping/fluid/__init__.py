"""Rates of flows that are not simulated: alone, side by side, or at their shares of ports."""
