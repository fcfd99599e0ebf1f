"""Claims about what is installed: the wheel, made of the source distribution, has all that the program reads, and runs
without the repository."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from install import ROOT, build

PACKAGES = ("pdes", "partition", "models")
CONFIG = """\
[topology]
kind = "leaf-spine"
leaves = 1
spines = 1
hosts_per_leaf = 2
[workload]
kind = "flows"
file = "flows.csv"
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))[1]


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    files = {path for name in PACKAGES for path in (ROOT / name).rglob("*") if path.suffix not in ("", ".pyc")}
    assert len(files) > 300
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.split("/")[0] in PACKAGES}
    assert packed == {path.relative_to(ROOT).as_posix() for path in files}


def test_what_is_installed_runs_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "empty").mkdir()
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "pdes", *words]
        done = subprocess.run(command, cwd=tmp_path / "empty", env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    found = "import pdes, models, partition; print(pdes.__path__, models.__path__, partition.__path__)"
    where = subprocess.run(
        [sys.executable, "-c", found], cwd=tmp_path / "empty", env=environment, capture_output=True, text=True
    ).stdout
    assert where.count(str(tmp_path / "site")) == 3, where
    assert "GPU" in run("plan", str(ROOT / "examples" / "quickstart.toml"))
    (tmp_path / "config.toml").write_text(CONFIG)
    (tmp_path / "flows.csv").write_text("src,dst,size_bytes,start_ps\n0,1,5000,0\n")
    run(str(tmp_path / "config.toml"), "--python", "--out", "out", "--quiet")
    run("report", "out")
    assert (tmp_path / "empty/out/report.html").stat().st_size > 100_000
