"""GOAL schedules as text (LogGOPSim): `num_ranks n`, then for each rank `l1: send 8b to 1 tag 0`, `l2 requires l1`.

`calc` and `nic`, `cpu` as there: calc n takes n ns on its cpu; every cpu is a lane. A send is complete when it is
posted. `a irequires b` lets a begin as soon as b has begun; here, when what b waits for is complete.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from models.workload.trace.graph import ANY, COMPUTE, RECEIVE, SEND, GraphBuilder, Leniency, TraceGraph, TraceNode
from pdes.errors import ConfigError
from pdes.files import read_text
from pdes.units import PS_PER_NS

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r"[A-Za-z_]\w*|-?\d+b?|[{}:]|\S")
_LARGEST = 2**50


class _Tokens:
    """Words of a file with the lines they stand on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = read_text(path, "utf-8")
        except OSError as error:
            raise ConfigError(str(path), f"cannot be read: {error.strerror}", "a readable file") from error
        except UnicodeDecodeError as error:
            raise ConfigError(
                f"{path}, byte {error.start}", "is neither text nor binary GOAL", "a GOAL file"
            ) from error
        self._n_line = len(text.splitlines())
        text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n") or " ", text)
        if "/*" in text:
            raise self.error(1 + text[: text.index("/*")].count("\n"), "a comment without an end", "/* ... */")
        self._words = self._split(text)
        self._next = next(self._words, None)

    @staticmethod
    def _split(text: str) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(text.splitlines(), 1):
            for match in _TOKEN.finditer(line):
                yield number, match[0]

    @property
    def peek(self) -> str:
        """The next word, "" at the end."""
        return self._next[1] if self._next else ""

    @property
    def line(self) -> int:
        """The line of the next word, or the last one."""
        return self._next[0] if self._next else self._n_line

    def take(self) -> str:
        """The next word; ConfigError at the end of the file."""
        if self._next is None:
            raise self.error(self._n_line, "ends here", "a whole file, each rank's { ... } closed")
        word = self._next[1]
        self._next = next(self._words, None)
        return word

    def expect(self, word: str) -> None:
        """Take this very word."""
        line, found = self.line, self.take()
        if found != word:
            raise self.error(line, f"found {found!r}", f"{word!r} here")

    def number(self, what: str, least: int = 0, unit: str = "") -> int:
        """Take a whole number, its unit if it has one."""
        line, word = self.line, self.take()
        digits = word.removesuffix(unit) if unit else word
        if not re.fullmatch(r"-?\d{1,30}", digits) or not least <= int(digits) <= _LARGEST:
            raise self.error(
                line, f"{what} {word!r}", f"a whole number from {least} to {_LARGEST}{unit and ' ' + unit}"
            )
        return int(digits)

    def error(self, line: int, found: str, accepted: str) -> ConfigError:
        """About a line."""
        return ConfigError(f"{self.path}, line {line}", found, accepted)


def n_text_rank(path: Path) -> int:
    """How many ranks a schedule has. ConfigError names the line."""
    return _n_rank(_Tokens(path))


def _n_rank(words: _Tokens) -> int:
    words.expect("num_ranks")
    return words.number("number of ranks", 1)


def read_goal_text(path: Path, leniency: Leniency) -> TraceGraph:
    """All ranks of a schedule. ConfigError names the line."""
    words = _Tokens(path)
    n_rank = _n_rank(words)
    builder, ranks = GraphBuilder(str(path), leniency), {}
    while words.peek:
        line = words.line
        words.expect("rank")
        rank = words.number("rank")
        if rank >= n_rank or rank in ranks:
            again = " a second time" if rank in ranks else ""
            raise words.error(line, f"rank {rank}{again}", f"ranks 0..{n_rank - 1}, each once")
        ranks[rank] = _read_rank(words)
    for rank in range(n_rank):
        if rank not in ranks:
            raise words.error(words.line, f"ends here, without rank {rank}", f"a block for each of {n_rank} ranks")
        _add_rank(builder, *ranks[rank])
        builder.end_rank(str(path))
    return builder.finish()


_Operation = tuple[int, dict[str, int]]
_Rank = tuple[dict[str, _Operation], dict[str, list[str]], list[tuple[str, str]]]


def _read_rank(words: _Tokens) -> _Rank:
    """(operations by label, what each requires, pairs of irequires) of one rank."""
    operations: dict[str, _Operation] = {}
    requires: dict[str, list[str]] = {}
    starts: list[tuple[str, str]] = []
    words.expect("{")
    while words.peek != "}":
        line, label = words.line, words.take()
        verb = words.take()
        if verb == ":":
            if label in operations:
                raise words.error(line, f"the label {label} a second time", "each label once per rank")
            operations[label] = _read_operation(words)
            continue
        if verb not in ("requires", "irequires"):
            raise words.error(
                line, f"found {label!r} {verb!r}", "'label: send|recv|calc ...' or 'label requires label'"
            )
        other = words.take()
        for name in (label, other):
            if name not in operations:
                raise words.error(line, f"the label {name}", "a label of this rank that stands above")
        requires.setdefault(label, []).append(other) if verb == "requires" else starts.append((label, other))
    words.expect("}")
    return operations, requires, starts


def _read_operation(words: _Tokens) -> _Operation:
    line, verb = words.line, words.take()
    if verb == "calc":
        return COMPUTE, {"duration_ps": words.number("calc") * PS_PER_NS} | _options(words, ("cpu", "nic"))
    if verb == "send":
        size_bytes = words.number("send", unit="b")
        words.expect("to")
        peer = words.number("rank")
        return SEND, {"size_bytes": size_bytes, "peer": peer} | _options(words, ("tag", "cpu", "nic"))
    if verb == "recv":
        size_bytes = words.number("recv", unit="b")
        words.expect("from")
        peer = words.number("rank", ANY)
        return RECEIVE, {"size_bytes": size_bytes, "peer": peer} | _options(words, ("tag", "cpu", "nic"))
    raise words.error(line, f"found {verb!r}", "send, recv or calc")


def _options(words: _Tokens, accepted: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    while words.peek in accepted:
        name = words.take()
        found[name] = words.number(name, ANY if name == "tag" else 0)
    return found


def _add_rank(
    builder: GraphBuilder, operations: dict[str, _Operation], requires: dict[str, list[str]], starts: list
) -> None:
    """Nodes in order, numbered from 1; an irequires becomes what the other one waits for."""
    number = {label: i for i, label in enumerate(operations, 1)}
    begins: dict[str, list[str]] = {}
    for label, other in starts:
        begins.setdefault(label, []).append(other)
    for label, (kind, values) in operations.items():
        after = [number[other] for other in requires.get(label, ())]
        for other in begins.get(label, ()):
            after += [number[one] for one in requires.get(other, ())]
        add_operation(builder, number[label], kind, values, label, after)


def add_operation(
    builder: GraphBuilder, node_id: int, kind: int, values: dict[str, int], name: str, after: list[int]
) -> None:
    """Append one operation of GOAL. values: duration_ps, or size_bytes, at least 1 then, peer and tag; cpu."""
    size_bytes = 0 if kind == COMPUTE else max(1, values.get("size_bytes", 0))
    builder.add(
        TraceNode(
            node_id,
            kind,
            name=name,
            duration_ps=values.get("duration_ps", 0),
            size_bytes=size_bytes,
            peer=values.get("peer", ANY),
            tag=values.get("tag", 0),
            lane=values.get("cpu", 0),
            after=after,
        )
    )
