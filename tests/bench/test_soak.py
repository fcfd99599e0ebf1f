"""What the soak is made of: the line that it reads, the parts that it compares, the process that it measures."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soak

from pdes.config import load_config
from pdes.results.progress import Progress


class _Lines:
    """A stream that keeps what is written."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        """Keep it."""
        self.text += text

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        """No terminal."""
        return False


@pytest.mark.parametrize("packet_hops", [900, 45_000, 12_300_000, 2_100_000_000])
def test_the_rate_is_what_progress_says(packet_hops: int) -> None:
    now, lines = [0.0], _Lines()
    progress = Progress(lines, 2, clock=lambda: now[0])  # type: ignore[arg-type]
    now[0] = 10.0
    progress.update(10**9, packet_hops)
    rate = soak.rate_in(lines.text)
    assert rate is not None and rate == pytest.approx(packet_hops / 10, rel=0.05)
    assert soak.rate_in("checked 12 rounds: nothing is lost") is None


def test_a_leak_and_a_slower_run_show_in_the_parts() -> None:
    samples = [soak.Sample(5.0 * i, 2e7, 5.0 * i if i <= 50 else 250 + 10.0 * (i - 50), 1000 + i) for i in range(101)]
    rates, memory = soak.parts(soak.per_cpu_second(samples), 2), soak.parts(np.arange(101.0), 2)
    assert soak.per_cpu_second(samples)[0] == 2e7 and rates[1] == 1e7 < rates[0] <= 2e7
    assert memory[0] == np.arange(10, 56).mean() and memory[1] == np.arange(56, 101).mean()


def test_it_measures_those_that_run_the_program(tmp_path: Path) -> None:
    for name, counts in (("pdes", True), ("other", False)):
        text = "import sys; x = bytearray(50_000_000); print(1, flush=True); sys.stdin.read()"
        (tmp_path / name).write_text(text)
        command = [sys.executable, name, "-m", "pdes"]  # as a launcher has what it launches among its words
        process = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        cpu_s, rss_bytes = soak.usage(process.pid)
        process.communicate()
        assert (rss_bytes > 50_000_000 and cpu_s > 0) == counts
        assert counts or (cpu_s, rss_bytes) == (0, 0)


def test_the_config_is_one_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "soak.toml").write_text(soak.CONFIG.format(iterations=soak.CALIBRATION))
    config = load_config(tmp_path / "soak.toml")
    assert config.wormhole.mode == "off" and config.checkpoint.every_ps
