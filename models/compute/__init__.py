"""What a GPU of a training job computes, exchanges and keeps in memory: no engine, no network, no kernels."""
