"""The documentation site in a browser: are its links there, and does any page complain?

    python bench/site.py [--out FOLDER]

Builds the site (`pip install '.[docs]'`), looks every link and anchor up, and opens every page from a local server in
a headless Chromium (`apt-get install chromium`).
"""

import argparse
import http.server
import re
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from shutil import which

from cases import print_last

ROOT = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Server(http.server.ThreadingHTTPServer):
    """Says nothing of a browser that hangs up."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing."""


def broken_links(folder: Path) -> tuple[int, list[str]]:
    """(links to pages and anchors of the site, those that lead nowhere)."""
    n, broken, anchors = 0, [], {}
    for page in sorted(folder.rglob("*.html")):
        for link in re.findall(r'(?:href|src)="([^"]+)"', page.read_text()):
            if re.match(r"[a-z]+:", link):
                continue
            n += 1
            path, _, anchor = urllib.parse.unquote(link).partition("#")
            target = (folder / path[1:] if path.startswith("/") else page.parent / path) if path else page
            target = target / "index.html" if target.is_dir() else target
            if target not in anchors and target.suffix == ".html" and target.exists():
                anchors[target] = set(re.findall(r'id="([^"]+)"', target.read_text()))
            if not target.exists() or (anchor and anchor not in anchors.get(target, {anchor})):
                broken.append(f"{page.relative_to(folder)}: {link}")
    return n, broken


def complaints(browser: str, folder: Path) -> list[str]:
    """What pages write to the console of a browser."""
    handler = partial(Quiet, directory=str(folder))
    found = []
    with Server(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for page in sorted(folder.rglob("*.html")):
            url = f"http://127.0.0.1:{server.server_port}/{page.relative_to(folder)}"
            command = [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--enable-logging=stderr",
                "--dump-dom",
                url,
            ]
            log = subprocess.run(command, capture_output=True, text=True, timeout=120).stderr
            found += [f"{page.relative_to(folder)}: {line}" for line in log.splitlines() if "CONSOLE" in line]
        server.shutdown()
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Build, look, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where the site is built (default: a temporary folder)")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as work:
        folder = arguments.out or Path(work) / "site"
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder.resolve())]
        subprocess.run(command, cwd=ROOT, check=True)
        n_page, (n_link, broken) = len(list(folder.rglob("*.html"))), broken_links(folder)
        browser = next(filter(None, map(which, BROWSERS)), None)
        found = complaints(browser, folder) if browser else None
    print(f"{n_page} pages, {n_link} links, broken: {len(broken)}", *broken, sep="\n  ")
    print(
        "no browser" if found is None else f"lines on the console of {browser}: {len(found)}",
        *(found or []),
        sep="\n  ",
    )
    print_last({"pages": n_page, "links": n_link, "broken": broken, "console": found})
    return 1 if broken or found else 0


if __name__ == "__main__":
    sys.exit(main())
