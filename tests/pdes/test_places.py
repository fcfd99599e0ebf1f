"""Claims about where a fault is said to be: the file's line of the key, or of what it is in."""

from pathlib import Path

import pytest

from pdes.config import load_config
from pdes.config.places import line_of, lines_of, path_of
from pdes.errors import ConfigError
from pdes.scenario import build_scenario

TEXT = """\
# a comment with key = 1
[topology]
kind = "fat-tree"   # k = 3
"k" = 5

[network.buffer]
size = "1MB"
[network]
dctcp = { gain = 2 }
pfc.enabled = 3
[workload]
kind = "collectives"
[[workload.collective]]
name = "a"
operation = "all-reduce"
size = "4MB"
[[workload.collective]]
gpus = [
    0,
    1,
]
siez = "4MB"
"""
LINES = lines_of(TEXT)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("topology",), 2), (("topology", "k"), 4), (("topology", "link_rate"), 2), (("network", "buffer"), 6),
        (("network", "buffer", "size"), 7), (("network", "window"), 8), (("network", "dctcp", "gain"), 9),
        (("network", "pfc", "enabled"), 10), (("workload", "collective", 0, "size"), 16),
        (("workload", "collective", 1, "siez"), 22), (("workload", "collective", 1, "name"), 17), (("output",), None),
    ],
)  # fmt: skip
def test_a_key_is_on_its_line_or_on_that_of_its_table(path: tuple, line: int | None) -> None:
    assert line_of(path, LINES) == line


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[network] window", ("network", "window")),
        ("[network.buffer] size", ("network", "buffer", "size")),
        ("[[workload.collective]] 2: size", ("workload", "collective", 1, "size")),
        ("[[network.path]] 1", ("network", "path", 0)),
        ("[topology]", ("topology",)),
        ("topology.txt: line 3", None),
    ],
)
def test_the_key_that_an_error_names_is_found(text: str, path: tuple | None) -> None:
    assert path_of(text) == path


def test_every_fault_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(TEXT)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "c.toml", ["network.priority=9"])
    text = str(caught.value)
    for expected in (
        "c.toml:4: [topology] k: found 5. Accepted: an even number",
        "c.toml:10: [network.pfc] enabled: found 3",
        'c.toml:22: [[workload.collective]] 2: siez: unknown key. Did you mean "size"?',
        "c.toml:17: [[workload.collective]] 2: name: missing",
        "--set network.priority: found 9",
    ):
        assert expected in text, text


def test_a_fault_that_only_the_scenario_finds_names_its_line_too(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        '[topology]\nkind = "leaf-spine"\nleaves = 1\nspines = 1\nhosts_per_leaf = 4\n'
        '[network.dctcp]\n# of DCTCP\nagin = 0.1\n[workload]\nkind = "collectives"\n'
        '[[workload.collective]]\nname = "ring"\noperation = "all-reduce"\nsize = "4MB"\n'
    )
    with pytest.raises(ConfigError, match=r"c\.toml:8: \[network\.dctcp\] agin: unknown key\. Did you mean \"gain\"\?"):
        build_scenario(load_config(tmp_path / "c.toml"))
