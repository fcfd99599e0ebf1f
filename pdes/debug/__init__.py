"""Looking into a run: traces, conditions that stop it, checks of every round, and where two results differ.

Nothing here changes what happens. All but `diff` are observers (`models.network.watch.observers`), which see the
network at round ends; the trace is written by the kernels (`models.network.watch.tracing`).
"""
