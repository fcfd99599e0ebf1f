"""What an iteration of training takes by arithmetic alone: no events, no packets. For choosing among layouts."""
