"""The gallery's two studies of clusters: prints the tables of docs/gallery/sizing.md and docs/gallery/spares.md.

python bench/cluster_studies.py [--quick] [--study sizing,spares]
"""

import argparse
import importlib.util
import tempfile
from pathlib import Path

STUDIES = Path(__file__).resolve().parents[1] / "examples" / "studies"


def run(name: str, is_quick: bool) -> None:
    """As `python examples/studies/NAME/study.py`, without its files."""
    spec = importlib.util.spec_from_file_location(f"study_{name}", STUDIES / name / "study.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with tempfile.TemporaryDirectory() as folder:
        print(f"{name}: {module.__doc__.splitlines()[0]}")
        module.main(["--out", folder, *(["--quick"] if is_quick else [])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="sizing,spares")
    parser.add_argument("--quick", action="store_true", help="smaller sweeps")
    arguments = parser.parse_args()
    for name in arguments.study.split(","):
        if not (STUDIES / name / "study.py").is_file():
            parser.error(f"--study: found {name!r}. Accepted: sizing, spares")
        run(name, arguments.quick)


if __name__ == "__main__":
    main()
