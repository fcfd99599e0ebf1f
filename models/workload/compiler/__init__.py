"""The workload compiler: from a model, its layout and its GPUs to the streams that every GPU runs (HeteroSim, 4.1).

`models.compute` says what a GPU computes and exchanges in a pass over a layer, and how long that takes; here this
becomes programs of streams: `schedules` orders the passes of a pipeline stage, `loops` finds what repeats in them,
`stage` writes a stage's streams, `groups` has its collectives, `build` gives them to the GPUs.
"""
