"""One HTML file with everything in it: style, script, the plots' data and the library that draws them.

The library is Plotly's, as the package has it; gzipped and in base64 it takes 2 MB of the page instead of 4.8.
"""

import base64
import gzip
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from pdes.errors import ConfigError, SimError
from pdes.results.report.figures import Plot
from pdes.results.report.tables import contents_html


def page_html(title: str, subtitle: str, sections: Iterable[str], plots: Mapping[str, Plot], footer: str) -> str:
    """The page. sections: HTML; everything else is text."""
    sections = list(sections)
    template = Template(_resource("page.html"))
    text = json.dumps(plots, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return template.substitute(
        title=escape(title), subtitle=escape(subtitle), footer=escape(footer), contents=contents_html(sections),
        style=_resource("page.css"), script=_resource("page.js"), body="\n".join(filter(None, sections)),
        plots=_packed(text.encode()), library=_library(),
    )  # fmt: skip


def write_page(path: Path, html: str) -> None:
    """Put the page in place, whole or not at all. ConfigError: it cannot be written there."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        unfinished.write_text(html, encoding="utf-8")
        os.replace(unfinished, path)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        found = f"cannot be written: {error.strerror}"
        raise ConfigError(str(path), found, "Name another file with --out FILE.html") from error


def _resource(name: str) -> str:
    return (files("pdes.results.report") / "template" / name).read_text(encoding="utf-8")


@cache
def _library() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise SimError("a report needs plotly, which is not installed: pip install plotly") from error
    return _packed(get_plotlyjs().encode())


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()
