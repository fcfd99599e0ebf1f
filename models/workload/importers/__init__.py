"""Readers of other tools' workloads, one module per format; each makes a `trace.graph.TraceGraph`."""
