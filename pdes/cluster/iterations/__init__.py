"""Iteration times of jobs at the cluster level, from runs in packets or in flow mode, kept on disk.

`shape` says what a run is about, wherever in the cluster it is; `run` simulates it; `memo` keeps what came of it;
`speeds` asks these for the event loop; `workers` has other ranks run what is not known.
"""
