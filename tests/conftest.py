"""Settings of the whole suite."""

from hypothesis import settings

# No deadline: a first call may compile a kernel. Derandomised: the same cases on every machine and rank.
settings.register_profile("pdes", deadline=None, derandomize=True)
settings.load_profile("pdes")
