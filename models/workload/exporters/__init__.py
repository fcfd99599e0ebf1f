"""Writers of our workloads in other tools' formats, one module per format."""
