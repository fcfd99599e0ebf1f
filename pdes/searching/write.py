"""The files of a search beside its store: candidates, summary, report."""

import json
from pathlib import Path

from pdes.searching.found import Found
from pdes.searching.page import page
from pdes.searching.told import facts
from pdes.sweeps.write import put_file

CANDIDATES, SUMMARY, PAGE = "candidates.parquet", "search.json", "report.html"


def write(found: Found) -> Path:
    """All of them; where the report is. ConfigError: they cannot be written."""
    import pyarrow.parquet as pq

    folder = found.search.directory
    text = json.dumps(facts(found), indent=1, ensure_ascii=False, default=str) + "\n"
    html = page(found)
    put_file(folder / CANDIDATES, lambda path: pq.write_table(found.candidates(), path))
    put_file(folder / SUMMARY, lambda path: path.write_text(text, encoding="utf-8"))
    put_file(folder / PAGE, lambda path: path.write_text(html, encoding="utf-8"))
    return folder / PAGE
