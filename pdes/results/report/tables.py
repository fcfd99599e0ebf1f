"""Bits of HTML: everything that comes from a run is escaped here, and nowhere else is HTML made of it."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

WIDE = 32  # characters of a text from which it may be broken into lines


class Tile(NamedTuple):
    """A figure of the headline."""

    label: str
    value: str
    note: str = ""


def tiles_html(tiles: Iterable[Tile]) -> str:
    """The headline."""
    items = [
        f'<div class="tile"><dt>{escape(tile.label)}</dt><dd><b>{escape(tile.value)}</b>'
        f"{f'<span>{escape(tile.note)}</span>' if tile.note else ''}</dd></div>"
        for tile in tiles
    ]
    return f'<dl class="tiles">{"".join(items)}</dl>'


def table_html(headings: Sequence[str], rows: Iterable[Sequence[str]], n_left: int = 1, caption: str = "") -> str:
    """A table. The first n_left columns hold text, the others figures."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = [
            ' class="n"' if i >= n_left else ' class="wide"' if len(row[i]) > WIDE else "" for i in range(len(row))
        ]
        return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    head = f"<thead><tr>{cells('th', headings)}</tr></thead>"
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    kind = ' class="text"' if n_left >= len(headings) else ""
    title = f"<caption><span>{escape(caption)}</span></caption>" if caption else ""
    return f'<div class="scroll"><table{kind}>{title}{head}<tbody>{body}</tbody></table></div>'


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph. kind: "warn", "note"."""
    return f'<p class="{kind}">{escape(text)}</p>'


def section(anchor: str, title: str, *parts: str) -> str:
    """A section, "" if it has nothing to say."""
    body = "".join(parts)
    return f'<section id="{anchor}"><h2>{escape(title)}</h2>{body}</section>' if body else ""


def plot_html(name: str, title: str, text: str = "") -> str:
    """The place of a plot, which the page's script draws. name: its key in the data."""
    note = f"<figcaption>{escape(text)}</figcaption>" if text else ""
    place = f'<div class="choices"></div><div class="plot" data-plot="{name}"></div>'
    return f"<figure><h3>{escape(title)}</h3>{place}{note}</figure>"


def contents_html(sections: Iterable[str]) -> str:
    """Links to the sections that there are."""
    links = []
    for text in filter(None, sections):
        anchor, title = text.split('"', 2)[1], text.split("<h2>", 1)[1].split("</h2>", 1)[0]
        links.append(f'<a href="#{anchor}">{title}</a>')
    return f"<nav>{''.join(links)}</nav>"
