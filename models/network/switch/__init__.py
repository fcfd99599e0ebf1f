"""Switches: plain and managed ones, queues, shared buffers, PFC, forwarding, telemetry."""
