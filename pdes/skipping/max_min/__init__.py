"""Weighted max-min fair rates of flows that come and go, solved anew where something changes, and when they end."""
