"""The table of docs/accuracy.md: fast-forwarded runs beside full ones, of the figures in bench/accuracy_table.json.

    python bench/accuracy_table.py [--write]

Prints the tables; --write puts them into docs/accuracy.md, between the two comments that mark their place. A row of the
JSON is a case of `python bench/wormhole.py --suite`, with the figures that it prints: errors are of completion times
(mean, 99th percentile) and of the iteration time, `chaos_floor` is the mean difference of two full runs.
"""

import argparse
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "bench" / "accuracy_table.json"
PAGE = ROOT / "docs" / "accuracy.md"
BEGIN, END = "<!-- accuracy: made by bench/accuracy_table.py -->", "<!-- end of accuracy -->"
COLUMNS = {
    "config": "config", "control": "control", "tolerance": "tolerance", "runs": "runs",
    "packet_hops_full": "packet-hops, full", "packet_hops": "simulated", "times_fewer": "times fewer",
    "loop_seconds_full": "loop s, full", "loop_seconds": "loop s", "mean_fct_error": "mean FCT error",
    "p99_fct_error": "p99 FCT error", "chaos_floor": "chaos floor", "iteration_error": "iteration error",
}  # fmt: skip
Case = dict[str, Any]


def cases() -> list[Case]:
    """All cases that were measured."""
    return json.loads(KEPT.read_text())


def kind_of(case: Case) -> str:
    """The heading that a case stands below."""
    if case["lanes_and_shares"]:
        return "Mixtures of experts, at flow level"
    if float(case["tolerance"]):
        return "Mixtures of experts, with waves"
    return "Mixtures of experts, without estimates" if case["config"].startswith("moe") else "Dense models"


def table(found: list[Case]) -> str:
    """A table for each kind of case, without columns that say the same of all."""
    parts = []
    for kind in dict.fromkeys(map(kind_of, found)):
        mine = [case for case in found if kind_of(case) == kind]
        shown = [name for name in COLUMNS if name not in ("tolerance", "runs") or len({c[name] for c in mine}) > 1]
        lines = [[COLUMNS[name] for name in shown], ["---"] * len(shown)]
        lines += [[str(case[name]) for name in shown] for case in mine]
        parts.append("\n".join([f"### {kind}\n", *(f"| {' | '.join(line)} |" for line in lines)]))
    return "\n\n".join(parts)


def put_into(text: str, new: str) -> str:
    """The page with other tables. SystemExit if it has no place for them."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SystemExit(f"docs/accuracy.md needs one {BEGIN} and one {END}")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{new}\n\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="into docs/accuracy.md")
    arguments = parser.parse_args()
    print(table(cases()))
    if arguments.write:
        PAGE.write_text(put_into(PAGE.read_text(), table(cases())))


if __name__ == "__main__":
    main()
