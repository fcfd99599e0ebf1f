"""Keys with their values and places, whatever form they were written in; names as Megatron-LM's arguments, with _."""

from typing import NamedTuple, NoReturn

from pdes.errors import ConfigError

YES = ("true", "yes", "on", "1", "")
NO = ("false", "no", "off", "0", "none", "null", "~")
MOST, MOST_WIDTH, MOST_LAYERS = 2**26, 2**20, 2**14  # of [workload]


class Setting(NamedTuple):
    """A value as text, "" for a flag by itself, and where it stands. name: as the file has the key."""

    text: str
    where: str
    name: str


class Settings:
    """All keys of a job. Those that were asked for are `known`; what is left over is for the warning."""

    def __init__(self, path: str, given: dict[str, Setting], is_none_false: bool = False) -> None:
        self.path, self.given = path, given
        self.known: set[str] = set()

    def __contains__(self, key: str) -> bool:
        self.known.add(key)
        return key in self.given and self.given[key].text.lower() not in ("none", "null", "~")

    def wrong(self, key: str, accepted: str, found: str | None = None) -> NoReturn:
        """Raise ConfigError with a key's place."""
        one = self.given.get(key)
        if one is None:
            raise ConfigError(self.path, found or f"no {key}", accepted)
        text = f"{one.name} {one.text}".strip()
        raise ConfigError(one.where, f"{text}, {found}" if found else text, accepted)

    def count(self, key: str, default: int | None = None, least: int = 1, most: int = MOST) -> int:
        """A whole number. default None: it must be there."""
        if key not in self:
            if default is None:
                raise ConfigError(self.path, f"no {key}", "a job with its sizes; or --gpus N for GPUs")
            return default
        text = self.given[key].text.replace("_", "")
        if text.startswith("$"):
            self.wrong(key, "a value, such as with --variable NAME=VALUE", "which the file does not say")
        if not text.lstrip("-").isdecimal() or len(text) > 13 or not least <= int(text) <= most:
            self.wrong(key, f"a whole number from {least} to {most}")
        return int(text)

    def flag(self, key: str, default: bool = False) -> bool:
        """Whether a flag is there and not switched off."""
        if key not in self.given:
            self.known.add(key)
            return default
        self.known.add(key)
        text = self.given[key].text.lower()
        if text in YES:
            return True
        if text in NO:
            return False
        return self.wrong(key, "true or false")

    def text(self, key: str, default: str = "") -> str:
        """A value as text."""
        return self.given[key].text if key in self else default

    def number(self, key: str, default: float) -> float:
        """A number with or without a point."""
        if key not in self:
            return default
        try:
            return float(self.given[key].text[:40])
        except ValueError:
            return self.wrong(key, "a number")
