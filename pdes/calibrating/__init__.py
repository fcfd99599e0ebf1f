"""`pdes-sim calibrate`: constants of the models from a user's measurements, with the error of what was held out."""
