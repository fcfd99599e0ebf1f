"""The packet network in plain Python, written for reading: one global heap, one event for everything that happens.

The twin of `models.network` in its default mode (style section 4; ns-3's mode has `reference.ns3_twin`). It shares with
the engine the parameters' dataclasses, the random numbers' definition, and the plain Python handlers of the congestion
controls; everything else is worked out by another method: no windows, no lazy service, no late timers, no pools.

What belongs to whom: `events` the order of events; `simulation` the whole; `port` queues, transmitters, marks,
telemetry, loss; `switch` shared buffers and pauses; `routing` next hops and which links are up; `host` NICs; `sender`
and `receiver` the two ends of a queue pair, `missing` what selective repeat's sender knows; `control` the congestion
control of one.
"""

from reference.network_twin.simulation import NetworkTwin, TwinFlow

__all__ = ["NetworkTwin", "TwinFlow"]
