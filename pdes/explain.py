"""The keys that a text names, for `pdes-sim explain`; also parameters of congestion controls, which are their own."""

import difflib

from pdes.config import LAW_TABLES
from pdes.config.keys import NAME, UNITS, Key, all_keys
from pdes.config.wormhole.old_keys import OLD_NAMES
from pdes.errors import ConfigError
from pdes.units import shown

MOST_NEAR = 4

__all__ = ["Key", "all_keys", "control_keys", "find"]


def find(text: str) -> list[Key]:
    """The keys that a text names: "network.payload", "[network] payload", "payload", or a table, with all in it.

    Raises ConfigError that names the nearest ones.
    """
    keys, wanted = all_keys(), text.replace("[", " ").replace("]", " ").strip().replace(" ", ".")
    parts = tuple(part for part in wanted.split(".") if part)
    of_a_control = control_keys(parts[1]) if parts[:1] == ("network",) and parts[1:2] and parts[1] in LAW_TABLES else []
    keys += of_a_control
    exact = [key for key in keys if _fits(key.path, parts)]
    if exact and (exact[0].is_table or (len(parts) == 2 and of_a_control)):
        return [key for key in keys if _fits(key.path[: len(parts)], parts)]
    found = exact or [key for key in keys if len(parts) and _fits(key.path[-len(parts) :], parts)]
    if found:
        return found
    if parts and parts[-1] in OLD_NAMES:
        raise ConfigError(f"explain {text}", "a key of earlier versions", f"Accepted: wormhole.{OLD_NAMES[parts[-1]]}")
    raise ConfigError(f"explain {text}", "no such key", f"Accepted: {', '.join(_near(parts, keys))}")


def control_keys(table: str) -> list[Key]:
    """Parameters of a built-in congestion control, as its class has them; none has none."""
    from models.congestion.law import find_law
    from models.congestion.parameters import key_of, unit_of

    control, found = find_law(table).control, []
    source = f"{control.__module__.replace('.', '/')}.py, {control.__name__}"
    for name, default in getattr(control, "parameters", {}).items():
        scaled = getattr(default, "at_100g", None)
        text = shown(default) if scaled is None else f"{shown(scaled)} at 100 Gbps, in proportion to the line rate"
        unit = UNITS.get(unit_of(name, default), "")
        meaning, accepted = f"parameter {name} of {control.__name__}; its file says more", unit or "as the default"
        found.append(Key(("network", table, key_of(name, default)), (), meaning, unit, text, accepted, source, False))
    return found


def _fits(path: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    return len(path) == len(parts) and all(one in (other, NAME) for one, other in zip(path, parts, strict=True))


def _near(parts: tuple[str, ...], keys: list[Key]) -> list[str]:
    """Names of keys that are spelled alike, by their last part and then in whole; the tables if none is."""
    last = parts[-1] if parts else ""
    lasts = difflib.get_close_matches(last, {key.path[-1] for key in keys}, n=MOST_NEAR, cutoff=0.6)
    names = [key.name for one in lasts for key in keys if key.path[-1] == one]
    names += difflib.get_close_matches(".".join(parts), [key.name for key in keys], n=MOST_NEAR, cutoff=0.7)
    return list(dict.fromkeys(names))[:MOST_NEAR] or [key.name for key in keys if len(key.path) == 1]
