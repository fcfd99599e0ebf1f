"""How often a process of this program looks for circles of objects that nobody needs."""

import gc


def collect_seldom() -> None:
    """Nearly all that a process makes at its beginning lives as long as it does: modules, plans, a compiler's trees."""
    gc.set_threshold(100_000, 50, 100)
