"""What is wrong with a trace, by line, and what was done about it: complete in audit.csv, in short for people."""

import csv
from typing import NamedTuple, TextIO

COLUMNS = ("file", "line", "job", "column", "found", "done")
LEFT_OUT = "left out"
N_EXAMPLE = 2  # of a kind, in the summary
MOST_KINDS = 12  # that the summary names
MOST_QUOTED = 60  # characters of a field


class Finding(NamedTuple):
    """One thing that is wrong. kind: what, in words that others share; word: what stands there; line 0: no single one.

    n: of how many lines it tells.
    """

    kind: str
    file: str
    line: int
    job: str
    column: str
    word: str
    done: str
    n: int = 1

    @property
    def found(self) -> str:
        """The kind, and what stands there."""
        return f"{self.kind}: {self.word}" if self.word else self.kind


class Audit:
    """Takes findings, writes each to a file at once, and keeps a count and the first ones of each kind."""

    def __init__(self, file: TextIO, main: str = "") -> None:
        self.main = main  # the file that the summary does not name again and again
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow(COLUMNS)
        self._kinds: dict[tuple[str, str], tuple[int, list[Finding]]] = {}
        self.n_finding = 0

    def add(self, finding: Finding) -> None:
        """Write it down."""
        line = finding.line or ""
        self._writer.writerow((finding.file, line, finding.job, finding.column, finding.found, finding.done))
        self.n_finding += 1
        n, first = self._kinds.get((finding.kind, finding.done), (0, []))
        if len(first) < N_EXAMPLE:
            first.append(finding)
        self._kinds[finding.kind, finding.done] = n + finding.n, first

    def count(self, kind: str) -> int:
        """Lines of a kind, whatever was done about them."""
        return sum(n for (name, _), (n, _) in self._kinds.items() if name == kind)

    def summary(self) -> list[str]:
        """A line per kind, the most frequent first, with the first lines where it is found."""
        kinds = sorted(self._kinds.items(), key=lambda item: -item[1][0])
        lines = [self._line_of(done, n, first) for (_, done), (n, first) in kinds[:MOST_KINDS]]
        rest = kinds[MOST_KINDS:]
        if rest:
            lines.append(f"{sum(n for _, (n, _) in rest):,} more, of {len(rest)} other kinds")
        return lines

    def first(self) -> str:
        """The first finding in one line, or nothing."""
        found = [findings[0] for _, findings in self._kinds.values()]
        if not found:
            return ""
        one = min(found, key=lambda finding: finding.line)
        return f"{self._where(one)} ({one.kind})"

    def _line_of(self, done: str, n: int, first: list[Finding]) -> str:
        if first[0].line == 0:
            return f"{first[0].found}; {done}"
        rest = f", and {n - len(first):,} more" if n > len(first) and first[0].n == 1 else ""
        return f"{n:,} x {first[0].kind}; {done}: {'; '.join(map(self._where, first))}{rest}"

    def _where(self, finding: Finding) -> str:
        file = "" if finding.file == self.main else f"{finding.file}, "
        job = f" (job {finding.job[:24]})" if finding.job else ""
        what = " ".join(part for part in (finding.column, finding.word) if part)
        return f"{file}line {finding.line}{job}" + f", {what}" * bool(what)


def quoted(word: object) -> str:
    """A field as it is shown: in quotes, cut, without what a terminal would obey."""
    text = word if isinstance(word, str) else repr(word)
    short = text if len(text) <= MOST_QUOTED else f"{text[:MOST_QUOTED]}..."
    return f'"{plain(short)}"'


def plain(text: str) -> str:
    """Text of one line that any file takes: what cannot be printed becomes a question mark."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)
