"""Keys of [wormhole] that earlier versions had: what they say is put into the words of today, with a warning for each.

They are `mode` "steady", "memo" and "full", `memo_tolerance`, `lanes` and `shares`, and the keys that are below
[wormhole.paper] now. A config means what it meant. What the command line sets goes on top of what the file has,
whichever of the two uses old keys; old and new keys of one of them that contradict each other are refused.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pdes.config.places import Path as KeyPath
from pdes.config.tables.fields import Fault
from pdes.config.wormhole.table import FORECASTS, PaperConfig, WormholeConfig, used
from pdes.units import shown

OLD_MODES = {"steady": ("periodic",), "memo": ("replay",), "full": ("periodic", "replay")}
OLD_NAMES = {"memo_tolerance": "tolerance", "lanes": "paper.forecasts", "shares": "paper.forecasts"}
"""Keys that have another name now, and which, below [wormhole]."""
FORECAST_OF = {"lanes": "alone", "shares": "shares"}
PAPER_KEYS = tuple(own.alias or name for name, own in PaperConfig.model_fields.items() if name != "forecasts")
DEFAULT_TOLERANCE = float(WormholeConfig.model_fields["tolerance"].default)
MOST_TOLERANCE = 0.5
Keys = dict[str, Any]


@dataclass
class Renewed:
    """The tables of a config without old keys. warnings: one of each old key. moved: a value's new place -> its old."""

    data: dict[str, Any]
    faults: list[Fault] = field(default_factory=list)
    warnings: list[tuple[KeyPath, str]] = field(default_factory=list)
    moved: dict[KeyPath, KeyPath] = field(default_factory=dict)


def renew(data: dict[str, Any], overridden: set[tuple[str, ...]]) -> Renewed:
    """The same config in today's keys. data: tables as TOML gives them. overridden: keys from the command line."""
    table = data.get("wormhole")
    if not isinstance(table, dict) or not isinstance(table.get("paper", {}), dict):
        return Renewed(data)
    table = table | ({"paper": dict(table["paper"])} if "paper" in table else {})
    found = Renewed(data | {"wormhole": table})
    is_set = {key: _is_set(key, overridden) for key in [*PAPER_KEYS, *(f"paper.{key}" for key in PAPER_KEYS)]}
    _move_paper_keys(table, is_set, found)
    if _is_old_mode(table.get("mode")) or any(key in table for key in OLD_NAMES):
        _renew_mechanisms(table, overridden, found)
    elif table.get("mode") != "auto" and _is_set("mode", overridden) and not _is_set("tolerance", overridden):
        table.pop("tolerance", None)  # which goes with the mode that the file has
    return found


def _is_set(key: str, overridden: set[tuple[str, ...]]) -> bool:
    """Whether a key below [wormhole] comes from the command line."""
    path = ("wormhole", *key.split("."))
    return any(path[: len(keys)] == keys for keys in overridden)


def _is_old_mode(mode: Any) -> bool:
    return isinstance(mode, str) and mode in OLD_MODES


def _move_paper_keys(table: Keys, is_set: dict[str, bool], found: Renewed) -> None:
    """Those that are directly under [wormhole] go below [wormhole.paper]."""
    for key in PAPER_KEYS:
        if key not in table:
            continue
        value, paper, old, new = table.pop(key), table.setdefault("paper", {}), ("wormhole", key), f"paper.{key}"
        found.warnings.append((old, f"was here in earlier versions; write {_line(key, value)} below [wormhole.paper]"))
        if key in paper and paper[key] != value and is_set[key] == is_set[new]:
            why = f"found {shown(value)}, but [wormhole.paper] has {_line(key, paper[key])}"
            found.faults.append(Fault(old, why, "Accepted: the latter alone"))
        elif key not in paper or is_set[key] >= is_set[new]:
            paper[key] = value
            found.moved["wormhole", "paper", key] = old


@dataclass
class _Meant:
    """What the keys come to. tolerance 0: nothing that is not exact. alone, shares None: nothing is said of them."""

    mode: str = "off"
    named: set[str] = field(default_factory=lambda: set(FORECASTS[:3]))
    alone: bool | None = None
    shares: bool | None = None
    tolerance: float = 0.0
    begins_with_all: bool = True  # what nothing is said of may be used

    def uses(self) -> list[str]:
        """The forecasts, as far as these may be used together."""
        found = self.named - {"alone", "shares"}
        if self.begins_with_all if self.alone is None else self.alone:
            found.add("alone")
            if self.begins_with_all if self.shares is None else self.shares:
                found.add("shares")
        if not self.tolerance or not {"replay", "similar"} <= found:
            found -= {*FORECASTS[2:]}
        return [name for name in FORECASTS if name in found]

    def take(self, keys: Keys) -> None:
        """Go on with what one place says, the file or the command line."""
        if isinstance(keys.get("forecasts"), list):
            self.named = set(map(str, keys["forecasts"]))
            self.alone, self.shares = "alone" in self.named, "shares" in self.named
        if "memo_tolerance" in keys:
            self.begins_with_all &= self.tolerance > 0
            self.tolerance = keys["memo_tolerance"]
            self.named |= {"similar"} if self.tolerance else set()
        elif "tolerance" in keys:
            self.tolerance = keys["tolerance"]
        self.alone, self.shares = keys.get("lanes", self.alone), keys.get("shares", self.shares)
        mode = keys.get("mode", self.mode)
        if mode in OLD_MODES:
            self.named = self.named - {*FORECASTS[:2]} | {*OLD_MODES[mode]}
        elif mode == "exact":
            self.tolerance = self.tolerance if "memo_tolerance" in keys else 0.0
        elif mode == "auto" and "mode" in keys:
            self.tolerance, self.begins_with_all = self.tolerance or DEFAULT_TOLERANCE, True
        self.mode = mode


def _renew_mechanisms(table: Keys, overridden: set[tuple[str, ...]], found: Renewed) -> None:
    """mode, tolerance and forecasts, from keys some of which are old: those of the file, then those set."""
    paper = table.get("paper", {})
    keys = {key: table.pop(key) for key in ("mode", "tolerance", *OLD_NAMES) if key in table}
    keys |= {"forecasts": paper.pop("forecasts")} if "forecasts" in paper else {}
    of_set = {key for key in keys if _is_set("paper.forecasts" if key == "forecasts" else key, overridden)}
    found.faults += _value_faults(keys)
    meant = _Meant()
    for mine in ({key: keys[key] for key in keys if (key in of_set) == is_set} for is_set in (False, True)):
        found.faults += [] if found.faults else _contradictions(mine)
        if found.faults:
            table.pop("memo", None)  # of which nothing can be said
            return
        if mine.get("tolerance") and of_set >= mine.keys() and "mode" not in mine and not meant.tolerance:
            mode = shown(keys.get("mode", "off"))
            found.faults.append(_fault("tolerance", f"is there, but mode is {mode}", 'with mode = "auto"'))
            return
        meant.take(mine)
    _write(table, keys, meant, found)


def _write(table: Keys, keys: Keys, meant: _Meant, found: Renewed) -> None:
    """The new keys, and warnings of the old ones."""
    uses, is_on, lines = meant.uses(), meant.mode in (*OLD_MODES, "exact", "auto"), []
    if "mode" in keys:
        table["mode"] = ("auto" if "similar" in uses else "exact") if is_on else meant.mode
        lines.append(_line("mode", table["mode"]))
    if is_on and table["mode"] == "auto":
        table["tolerance"] = meant.tolerance
        lines.append(_line("tolerance", meant.tolerance))
        if "memo_tolerance" in keys:
            found.moved["wormhole", "tolerance"] = ("wormhole", "memo_tolerance")
    if is_on and tuple(uses) != used(table["mode"], None):
        table["paper"] = table.get("paper", {}) | {"forecasts": uses}
        lines.append(f"[wormhole.paper] {_line('forecasts', uses)}")
    new = f"write {', '.join(lines)}" if is_on else "leave it out, as the mode is off"
    for key in [key for key in keys if key in OLD_NAMES or (key == "mode" and _is_old_mode(keys[key]))]:
        what = f"{shown(keys[key])} is a mode" if key == "mode" else "is a key"
        found.warnings.append((("wormhole", key), f"{what} of earlier versions; {new}"))


def _value_faults(keys: Keys) -> Iterator[Fault]:
    """Of single keys that cannot be used as they are."""
    for key in ("memo_tolerance", "tolerance"):
        value = keys.get(key, MOST_TOLERANCE)
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield _fault(key, f"found {shown(value)}", "a number")
        elif not 0 <= value <= MOST_TOLERANCE or (key == "tolerance" and value == 0):
            bound = "more than 0" if key == "tolerance" else "at least 0"
            yield _fault(key, f"found {shown(value)}", f"at most {MOST_TOLERANCE}" if value > 0 else bound)
    for key in FORECAST_OF:
        if not isinstance(keys.get(key, False), bool):
            yield _fault(key, f"found {shown(keys[key])}", "true or false")


def _contradictions(keys: Keys) -> Iterator[Fault]:
    """Old and new keys that are in the same place and say different things."""
    mode, named = keys.get("mode"), keys.get("forecasts")
    if _is_old_mode(mode) and ("tolerance" in keys or "forecasts" in keys):
        new = "tolerance" if "tolerance" in keys else "forecasts"
        found = f"found {shown(mode)}, a mode of earlier versions, but {_line(new, keys[new])} is not of them"
        yield _fault("mode", found, '"exact" or "auto"')
    elif mode in ("off", "exact") and "tolerance" in keys:
        yield _fault("tolerance", f"is there, but mode is {shown(mode)}", 'with mode = "auto"')
    for key, value in keys.items():
        if key not in OLD_NAMES:
            continue
        is_memo = key == "memo_tolerance"
        if is_memo and keys.get("tolerance", value) != value:
            yield _fault(key, f"found {shown(value)}, but {_line('tolerance', keys['tolerance'])}", "the latter alone")
        elif not is_memo and isinstance(named, list) and (FORECAST_OF[key] in named) != value:
            yield _fault(key, f"found {shown(value)}, but {_line('forecasts', named)}", "the latter alone")
        elif mode == "exact" and value:
            yield _fault(key, f"found {shown(value)}, but {_line('mode', mode)}", 'mode = "auto" instead')
        elif mode == "auto" and is_memo and value == 0:
            yield _fault(key, f"found {shown(value)}, but {_line('mode', mode)}", 'mode = "exact" instead')


def _fault(key: str, found: str, accepted: str) -> Fault:
    return Fault(("wormhole", key), found, f"Accepted: {accepted}")


def _line(key: str, value: Any) -> str:
    """A key as a file has it."""
    return f"{key} = {json.dumps(value) if isinstance(value, list) else shown(value)}"
