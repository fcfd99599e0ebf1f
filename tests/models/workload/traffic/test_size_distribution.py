"""Distributions of sizes: the built-in ones, what is drawn from them, and what is said about a file that cannot be."""

import numpy as np
import pytest

from models.workload.traffic.size_distribution import BUILT_IN, FOLDER, SizeDistribution, read_sizes
from pdes.config.tables.workload import NAMED_SIZES
from pdes.errors import ConfigError


def test_the_built_in_ones_are_files_of_the_package_and_known_to_the_config():
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == sorted(BUILT_IN) == sorted(NAMED_SIZES)


@pytest.mark.parametrize(("name", "mean_bytes", "median_bytes"), [
    ("web-search", 1_711_250, 50_000 + 30_000 * 10 / 13), ("fb-hadoop", 120_420.75, 700),
])  # fmt: skip
def test_a_built_in_distribution_has_the_moments_of_its_points(name, mean_bytes, median_bytes):
    """Means by hand: sum over the segments of (percent) x (middle)."""
    sizes = read_sizes(FOLDER / f"{name}.txt")
    assert sizes.name == name
    assert sizes.mean_bytes == pytest.approx(mean_bytes)
    assert sizes.sizes(np.array([0.5])).tolist() == [round(median_bytes)]


def test_sizes_are_the_inverse_of_the_distribution():
    sizes = SizeDistribution("x", np.array([0.0, 100, 100, 300]), np.array([0, 0.25, 0.5, 1.0]))
    assert sizes.sizes(np.array([0.0, 0.125, 0.3, 0.5, 0.75, 1 - 2**-53])).tolist() == [1, 50, 100, 100, 200, 300]
    assert sizes.mean_bytes == 0.25 * 50 + 0.25 * 100 + 0.5 * 200


def read(tmp_path, text: str) -> SizeDistribution:
    (tmp_path / "sizes.txt").write_text(text)
    return read_sizes(tmp_path / "sizes.txt")


def test_comments_and_blank_lines_are_passed_over(tmp_path):
    sizes = read(tmp_path, "# mine\n\n10 0\n  # middle\n20 40.5\n30 100\n")
    assert (sizes.name, sizes.size_bytes.tolist()) == ("sizes", [10, 20, 30])
    assert sizes.frac.tolist() == pytest.approx([0, 0.405, 1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"sizes\.txt: the distribution ends before 100 percent"),
        ("0 0\n5 90\n", r"line 2: the distribution ends before 100 percent\. Accepted: a last line 'bytes 100'"),
        ("0 0\n5\n", r"line 2: '5'\. Accepted: 'bytes percent', two numbers"),
        ("0 0\nfive 100\n", r"line 2: 'five 100'"),
        ("0 10\n5 100\n", r"line 1: the distribution begins at 10 percent"),
        ("5 0\n4 100\n", r"line 2: '4 100'\. Accepted: a size not below the last one's, and more percent"),
        ("0 0\n4 50\n5 50\n6 100\n", r"line 3: '5 50'"),
        ("0 0\n5 101\n", r"line 2: '5 101'\. Accepted: 0\.\.\d+ bytes and 0\.\.100 percent"),
        ("0 0\nnan 100\n", r"line 2: 'nan 100'"),
        ("0 0\n1e300 100\n", r"line 2: '1e300 100'"),
        ("0 0\n1 100\n", r"messages of 0\.5 bytes on average"),
    ],
)
def test_a_file_that_cannot_be_is_explained(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, text)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.txt: cannot be read"):
        read_sizes(tmp_path / "none.txt")
