"""A reader for each kind of trace: `matches` tells it by how a file begins, `read` takes its jobs in."""
