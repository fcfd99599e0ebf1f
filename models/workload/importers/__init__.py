"""Readers of other tools' workloads, one module per format; each makes a `trace_graph.TraceGraph`."""
