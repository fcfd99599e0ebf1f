"""What each LP has to do in a run, for the prediction of many ranks: measured on one, in stretches of the run."""
