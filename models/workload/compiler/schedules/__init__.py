"""In which order a pipeline stage does its passes."""
