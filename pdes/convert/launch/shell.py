"""As much of the shell's language as launch scripts use for arguments: words, quotes, variables, arrays, sums.

Nothing is run. Commands are read from top to bottom, those of all branches alike; the last assignment holds. What a
command would print, and a variable that the script does not assign, stay as they stand in the text.
"""

import ast
import operator
import re
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pdes.errors import ConfigError

MOST_CHARACTERS = 10**6  # of a script, and of what one word becomes
MOST_OF_ALL = 20 * MOST_CHARACTERS  # of what all words become
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[[^\]\s]*\])?(\+?=)")
_DEFAULT = re.compile(r"([A-Za-z_]\w*)(\[[@*\d]+\])?(?::?[-=](.*))?", re.DOTALL)
_PLAIN = re.compile(r"[^ \t\r\n;&|()<>'\"\\$`]*")
_PLAIN_IN_QUOTES = re.compile(r"[^\"\\$`]*")
_BEFORE_COMMANDS = ("then", "else", "elif", "do", "if", "while", "until", "!", "time", "{", "exec")
_BEFORE_NAMES = ("export", "declare", "local", "readonly", "typeset")
_OPERATORS: dict[type, Callable] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


class Word(NamedTuple):
    """A word and its line."""

    text: str
    line: int


class _Fields:
    """The words that one word becomes, piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[list[str]] = [[]]
        self.n_character = 0

    def add(self, text: str) -> None:
        """More of the last one."""
        self._pieces[-1].append(text)
        self.n_character += len(text)

    def extend(self, texts: list[str]) -> None:
        """More of the last one, and others behind it."""
        for number, text in enumerate(texts):
            if number:
                self._pieces.append([])
            self.add(text)

    def texts(self) -> list[str]:
        """All of them."""
        return ["".join(pieces) for pieces in self._pieces]


class Script:
    """Commands of a script, one after the other, with variables as they are at each."""

    def __init__(self, text: str, path: str, variables: dict[str, str] | None = None) -> None:
        if len(text) > MOST_CHARACTERS:
            raise ConfigError(path, f"{len(text)} characters", f"at most {MOST_CHARACTERS}")
        self._text, self._path, self._at, self._line = text, path, 0, 1
        self._given = dict(variables or {})
        self.values: dict[str, list[str]] = {name: [value] for name, value in self._given.items()}
        self.in_branches: dict[str, int] = {}  # line of what a branch assigns anew, by name
        self._n_open, self._depth, self._n_character = 0, 0, 0

    def commands(self) -> Iterator[list[Word]]:
        """Each command's words."""
        while self._at < len(self._text):
            words = self._command()
            if words:
                yield words

    def _error(self, found: str, accepted: str) -> ConfigError:
        return ConfigError(f"{self._path}, line {self._line}", found, accepted)

    def _next(self, n: int = 1) -> str:
        taken = self._text[self._at : self._at + n]
        self._at += n
        self._line += taken.count("\n")
        return taken

    def _peek(self, n: int = 1) -> str:
        return self._text[self._at : self._at + n]

    def _skip_blanks(self, with_lines: bool = False) -> None:
        while self._at < len(self._text):
            if self._peek(2) == "\\\n":
                self._next(2)
            elif self._peek(3) == "\\\r\n":
                self._next(3)
            elif self._peek() in " \t\r" or (with_lines and self._peek() == "\n"):
                self._next()
            elif self._peek() == "#":
                end = self._text.find("\n", self._at)
                self._next((end if end >= 0 else len(self._text)) - self._at)
            else:
                return

    def _command(self) -> list[Word]:
        words: list[Word] = []
        can_assign = True
        while self._at < len(self._text):
            self._skip_blanks()
            if self._peek() in ("\n", ";", "&", "|", ")", "") or (self._peek() == "(" and not words):
                self._next()
                return words
            match = _ASSIGNMENT.match(self._text, self._at) if can_assign else None
            if match:
                self._assign(match)
                continue
            if self._peek() in "<>(":
                self._redirect()
                continue
            found = self._word()
            first = found[0].text if found else ""
            if can_assign and first in _BEFORE_COMMANDS + _BEFORE_NAMES:
                self._n_open += first == "if"
                continue
            self._n_open += {"case": 1, "fi": -1, "esac": -1}.get(first, 0) if can_assign else 0
            can_assign = False
            words += found
        return words

    def _redirect(self) -> None:
        here = re.compile(r"<<-?\s*(['\"]?)(\w+)\1").match(self._text, self._at)
        if here is None or self._peek(3) == "<<<":
            self._next()
            return
        end = re.compile(rf"^\s*{re.escape(here[2])}\s*$", re.MULTILINE).search(self._text, here.end())
        self._next((end.end() if end else len(self._text)) - self._at)

    def _assign(self, match: re.Match[str]) -> None:
        name = match[1]
        self._next(match.end() - self._at)
        is_array = self._peek() == "("
        if is_array:
            self._next()
            value = []
            while True:
                self._skip_blanks(with_lines=True)
                if self._at >= len(self._text):
                    raise self._error(f"no ) of {name}=(", "a whole script")
                if self._peek() == ")":
                    self._next()
                    break
                if self._peek() in "(<>;&|":
                    self._next()
                    continue
                value += [word.text for word in self._word()]
        else:
            value = [" ".join(word.text for word in self._word(splits=False))]
        if name in self._given:
            return
        if match[3] == "+=":
            before = self.values.get(name, [])
            value = before + value if is_array or not before else [before[0] + value[0], *before[1:]]
        self._check(sum(map(len, value)))
        if self._n_open > 0 and self.values.get(name, value) != value:
            self.in_branches[name] = self._line
        self.values[name] = value

    def _check(self, n: int) -> None:
        if n > MOST_CHARACTERS:
            raise self._error(f"variables that become more than {MOST_CHARACTERS} characters", "less")

    def _word(self, splits: bool = True) -> list[Word]:
        """The word that begins here, as several where an unquoted variable or an array has several."""
        line, fields, is_there = self._line, _Fields(), False
        while self._at < len(self._text):
            c = self._peek()
            if c in " \t\r\n;&|()<>" or self._peek(2) == "\\\n":
                break
            is_there = True
            if c == "'":
                end = self._text.find("'", self._at + 1)
                if end < 0:
                    raise self._error("no second '", "a whole script")
                fields.add(self._next(end + 1 - self._at)[1:-1])
            elif c == '"':
                self._next()
                self._quoted(fields)
            elif c == "\\":
                self._next()
                fields.add(self._next())
            elif c in "$`":
                is_variable = c == "$" and self._peek(2) != "$("
                parts = self._expansion()
                pieces = [piece for part in parts for piece in part.split()] if splits and is_variable else parts
                fields.extend(pieces if splits else [" ".join(parts)])
            else:
                fields.add(self._run(_PLAIN))
            self._check(fields.n_character)
        if not is_there and self._at < len(self._text):
            self._next()
        self._n_character += fields.n_character
        if self._n_character > MOST_OF_ALL:
            raise self._error(f"words of more than {MOST_OF_ALL} characters together", "less")
        texts = fields.texts()
        return [Word(text, line) for text in texts if text or len(texts) == 1 and is_there]

    def _run(self, pattern: re.Pattern[str]) -> str:
        """As many characters as a pattern takes, one at least."""
        match = pattern.match(self._text, self._at)
        return self._next(max(1, match.end() - self._at) if match else 1)

    def _quoted(self, fields: "_Fields") -> None:
        while True:
            c = self._peek()
            if c == "":
                raise self._error('no second "', "a whole script")
            if c == '"':
                self._next()
                return
            if c == "\\" and self._peek(2)[1:] in ("\\", '"', "$", "`", "\n"):
                taken = self._next(2)[1]
                fields.add("" if taken == "\n" else taken)
            elif c in "$`":
                fields.extend(self._expansion())
            else:
                fields.add(self._run(_PLAIN_IN_QUOTES))
            self._check(fields.n_character)

    def _expansion(self) -> list[str]:
        """What stands for a $ or ` here: the fields of an array, or one text."""
        if self._peek() == "`":
            end = self._text.find("`", self._at + 1)
            return [self._next((end + 1 if end > 0 else len(self._text)) - self._at)]
        if self._peek(3) == "$((":
            inner = self._bracketed(3, "((", "))")
            return [self._sum(inner)]
        if self._peek(2) == "$(":
            return ["$(" + self._bracketed(2, "(", ")") + ")"]
        if self._peek(2) == "${":
            inner = self._bracketed(2, "{", "}")
            return self._variable(inner)
        match = _NAME.match(self._text, self._at + 1)
        if match is None:
            taken = self._next(2)
            return [] if taken in ("$@", "$*") else [taken]
        self._next(match.end() - self._at)
        return self.values.get(match[0], ["$" + match[0]])

    def _bracketed(self, n: int, opened: str, closed: str) -> str:
        start = self._at + n
        at, depth = start, 1
        for match in re.compile(f"{re.escape(opened)}|{re.escape(closed)}").finditer(self._text, start):
            depth += 1 if match[0] == opened else -1
            at = match.end()
            if depth == 0:
                break
        if depth:
            raise self._error(f"no {closed}", "a whole script")
        inner = self._text[start : at - len(closed)]
        self._next(at - self._at)
        return inner

    def _variable(self, inner: str) -> list[str]:
        match = _DEFAULT.fullmatch(inner)
        if match is None:
            return ["${" + inner + "}"]
        name, index, default = match[1], match[2], match[3]
        if name in self.values and self.values[name] != [""]:
            value = self.values[name]
            return value if index in ("[@]", "[*]") or len(value) <= 1 else value[:1]
        if default is None:
            return ["${" + inner + "}"]
        if self._depth > 20:
            raise self._error("defaults nested more than 20 deep", "less")
        part = Script(default.strip().strip('"'), self._path)
        part._line, part._depth, part.values = self._line, self._depth + 1, self.values
        fields = [""]
        while part._at < len(part._text):
            taken = part._expansion() if part._peek() in "$`" else [part._next()]
            fields[-1] += "".join(taken)
        return fields

    def _sum(self, inner: str) -> str:
        """The value of $((...)), or its text if something in it is not known."""
        text = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", lambda m: " ".join(self.values.get(m[1], [m[1]]))[:40], inner)
        try:
            if len(text) > 400:
                raise ValueError
            with warnings.catch_warnings(action="ignore"):  # of text that is hardly Python
                return str(_value(ast.parse(text.strip(), mode="eval").body))
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
            return f"$(({inner}))"


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 10**12:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        found = _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
        if abs(found) < 10**12:
            return found
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    raise ValueError
