"""Claims about how launch scripts and YAML are read: words as a shell has them, references as Hydra has them."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdes.convert.launch import shell, yaml_text
from pdes.convert.launch.settings import Setting, Settings
from pdes.convert.launch.shell import Script
from pdes.errors import ConfigError


def words_of(text: str) -> list[list[str]]:
    return [[word.text for word in command] for command in Script(text, "x").commands()]


def test_words_of_a_script() -> None:
    for text, found in (
        ("a 'b c' \"d e\" f\\ g # h\ni", [["a", "b c", "d e", "f g"], ["i"]]),
        ("A='x y'; p $A \"$A\" '$A'", [["p", "x", "y", "x y", "$A"]]),
        ("A=(x 'y z' # c\n w)\np ${A[@]} \"${A[@]}\"", [["p", "x", "y", "z", "w", "x", "y z", "w"]]),
        ("N=4 M=$((N * 2 + 10 / 3))\np ${M} ${K:-$N} ${K:-none} $K", [["p", "11", "4", "none", "$K"]]),
        ("A=(1)\nA+=(2)\np ${A[*]}", [["p", "1", "2"]]),
        ("p `date` $(date +%s) > x", [["p", "`date`", "$(date +%s)", "x"]]),
        ("cat <<EOF\n--num-layers 3\nEOF\np", [["cat"], ["p"]]),
        ("p a \\\n  b && q", [["p", "a", "b"], ["q"]]),
        ("p $((1/0)) $((x+)) $((2**99))", [["p", "$((1/0))", "$((x+))", "$((2**99))"]]),
    ):
        assert words_of(text) == found, text


def test_a_script_that_grows_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "A=xxxxxxxxxx\n" + 'A="$A$A"\n' * 40
    with pytest.raises(ConfigError, match="line 18: variables that become more than"):
        words_of(text)
    with pytest.raises(ConfigError, match="defaults nested"):
        words_of("p " + "${A:-" * 40 + "}" * 40)
    monkeypatch.setattr(shell, "MOST_CHARACTERS", 10)
    with pytest.raises(ConfigError, match="25 characters"):
        words_of("x" * 25)


def test_references_of_hydra(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "a: 3\nb: {c: '${a}', d: '${.c}', e: {f: '${..c}', g: '${multiply:${a},${b.d}}'}, h: '${oc.env:X,5}'}\n"
        "i: '${i}'\nj: '${none}'\nk: [1, 2]\n"
    )
    found = {key: value for key, (value, _) in yaml_text.flat_yaml(path).items()}
    assert found == {
        "k": "1,2", "a": "3", "b.c": "3", "b.d": "3", "b.e.f": "3", "b.e.g": "9", "b.h": "5", "i": "${i}",
        "j": "${none}",
    }  # fmt: skip


def test_settings_know_what_was_asked_for() -> None:
    found = Settings("f", {"a": Setting("3", "f, line 1", "--a"), "b": Setting("", "f, line 2", "--b")})
    assert (found.count("a"), found.flag("b"), found.flag("c"), found.known) == (
        3,
        True,
        False,
        {"a", "b", "c"},
    )
    with pytest.raises(ConfigError, match="f, line 1: --a 3"):
        found.flag("a")


PIECES = "A B = + ( ) [ ] { } $ ${ $( $(( )) \" ' ` \\ ; & | < << # @ * : - -- --x 1 / % \n if fi".split(" ") + [" "]


@given(st.lists(st.sampled_from(PIECES)))
@settings(max_examples=100)
def test_no_script_is_too_strange_to_end(pieces: list[str]) -> None:
    """Whatever the text, words or one message come out."""
    try:
        words = words_of("".join(pieces))
    except ConfigError as error:
        assert "x, line" in str(error)
    else:
        assert sum(len(word) for command in words for word in command) < 10**6
