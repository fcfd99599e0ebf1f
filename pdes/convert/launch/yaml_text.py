"""YAML as flat keys with their lines, and the references to other keys that Hydra's configs have.

PyYAML reads it (the extra "yaml"): only its nodes are used, so that values stay text and lines are known.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from pdes.errors import ConfigError
from pdes.files import MAX_DEPTH, read_text, why_unreadable

MOST_KEYS, MOST_CHARACTERS, MOST_REFERENCES, MOST_OF_VALUE = 10**5, 10**7, 32, 10**4
Flat = dict[str, tuple[str, int]]
"""Text and line of each value by its key with points; lists as their elements with commas."""
_REFERENCE = re.compile(r"\$\{([^${}]{1,200})\}")
_SUMS = {"multiply": lambda a, b: a * b, "add": lambda a, b: a + b, "sum": lambda a, b: a + b,
         "divide": lambda a, b: a // b, "divide_floor": lambda a, b: a // b}  # fmt: skip


def flat_yaml(path: Path) -> Flat:
    """All keys of a file, references replaced. ConfigError: no YAML, with its line; or without PyYAML."""
    try:
        import yaml
    except ImportError as error:
        raise ConfigError(str(path), "is YAML, and PyYAML is not installed", "pip install 'pdes-sim[yaml]'") from error
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"cannot be read: {why_unreadable(error)}", "a YAML file") from error
    if len(text) > MOST_CHARACTERS:
        raise ConfigError(str(path), f"{len(text)} characters", f"at most {MOST_CHARACTERS}")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark is not None else str(path)
        raise ConfigError(where, f"is no YAML: {getattr(error, 'problem', None) or 'it breaks off'}", "YAML") from error
    except RecursionError as error:
        raise ConfigError(str(path), f"is nested more than {MAX_DEPTH} levels deep", "few levels") from error
    found: Flat = {}
    for n_node, (key, value, line) in enumerate(_leaves(node, "", 0, path)):
        if key:
            found[key] = value, line
        if n_node > MOST_KEYS:
            raise ConfigError(f"{path}, line {line}", f"more than {MOST_KEYS} keys", "less")
    references = _References(found)
    try:
        return {key: (references.value(key), line) for key, (_, line) in found.items()}
    except RecursionError as error:
        raise ConfigError(str(path), "references to references, hundreds deep", "fewer") from error


def _leaves(node: object, key: str, depth: int, path: Path) -> Iterator[tuple[str, str, int]]:
    """(key, text, line) of each scalar, and of each list of scalars; of a table no key, so that all can be counted."""
    from yaml.nodes import MappingNode, ScalarNode, SequenceNode

    if depth > MAX_DEPTH:
        raise ConfigError(f"{path}, key {key[:80]}", f"is nested more than {MAX_DEPTH} levels deep", "few levels")
    if isinstance(node, MappingNode):
        yield "", "", node.start_mark.line + 1
        for name, value in node.value:
            inner = name.value if isinstance(name, ScalarNode) else "?"
            yield from _leaves(value, f"{key}.{inner}" if key else str(inner), depth + 1, path)
    elif isinstance(node, SequenceNode):
        scalars = [one.value for one in node.value if isinstance(one, ScalarNode)]
        yield key, ",".join(map(str, scalars)) if len(scalars) == len(node.value) else "", node.start_mark.line + 1
    elif isinstance(node, ScalarNode):
        yield key, str(node.value), node.start_mark.line + 1


class _References:
    """Values with what they refer to in its place; what is not there, and circles, stay as they are."""

    def __init__(self, found: Flat) -> None:
        self._found = found
        self._known: dict[str, str] = {}

    def value(self, key: str) -> str:
        """The value of a key."""
        if key not in self._known:
            self._known[key] = self._found[key][0]  # for a circle
            text = self._known[key]
            for _ in range(MOST_REFERENCES):
                pairs = ((match, self._meant(match[1], key)) for match in _REFERENCE.finditer(text))
                match, meant = next(((m, found) for m, found in pairs if found is not None), (None, None))
                if match is None or meant is None or len(text) + len(meant) > MOST_OF_VALUE:
                    break
                text = text[: match.start()] + meant + text[match.end() :]
            self._known[key] = text
        return self._known[key]

    def _meant(self, reference: str, key: str) -> str | None:
        name, is_call, arguments = reference.partition(":")
        if is_call:
            return _called(name, [word.strip() for word in arguments.split(",")])
        n_up = len(name) - len(name.lstrip("."))
        if n_up:
            name = ".".join([*key.split(".")[:-n_up], name.lstrip(".")])
        return self.value(name) if name in self._found and name != key else None


def _called(name: str, words: list[str]) -> str | None:
    if name == "oc.env":
        return words[1] if len(words) > 1 else None
    if name not in _SUMS or len(words) != 2 or not all(n.isdecimal() and len(n) < 13 for n in words):
        return None
    a, b = map(int, words)
    return str(_SUMS[name](a, b)) if b or not name.startswith("divide") else None
