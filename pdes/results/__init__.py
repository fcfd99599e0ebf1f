"""What a run leaves behind: tables, `result.json` and `run.json`, the summary on the terminal, the progress line.

It knows column names and folders, but no model and no MPI. Importing it is light: pyarrow and rich are imported by the
functions that need them.
"""

from pdes.results.folder import ResultFolder
from pdes.results.iteration import breakdown_of_tasks
from pdes.results.progress import Progress
from pdes.results.spool import RowSpool
from pdes.results.summary import print_report, terminal_summary, write_json
from pdes.results.tables import read_table, write_table

__all__ = [
    "Progress",
    "ResultFolder",
    "RowSpool",
    "breakdown_of_tasks",
    "print_report",
    "read_table",
    "terminal_summary",
    "write_json",
    "write_table",
]
