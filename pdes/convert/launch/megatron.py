"""Megatron-LM: launch scripts, files of arguments, and YAML in which the same arguments are keys."""

import re
from pathlib import Path

from pdes.convert.launch.settings import Setting, Settings
from pdes.convert.launch.shell import Script, Word
from pdes.convert.launch.yaml_text import flat_yaml
from pdes.errors import ConfigError
from pdes.files import read_text, why_unreadable

LAUNCHERS = {  # keys of launchers by their names here
    "nproc_per_node": "nproc_per_node", "nnodes": "nnodes", "gpus_per_node": "nproc_per_node", "nodes": "nnodes",
    "ntasks_per_node": "nproc_per_node", "num_gpus": "nproc_per_node", "num_nodes": "nnodes", "nproc": "nproc_per_node",
}  # fmt: skip
OF_YAML = {
    "activation_func": "activation", "virtual_pipeline_model_parallel_size": "virtual_pipeline_model_parallel_size",
    "num_moe_experts": "num_experts", "encoder_seq_length": "seq_length", "num_layers_in_first_pipeline_stage":
    "decoder_first_pipeline_num_layers", "num_layers_in_last_pipeline_stage": "decoder_last_pipeline_num_layers",
    "micro_batch": "micro_batch_size", "sequence_length": "seq_length", "devices": "nproc_per_node",
}  # fmt: skip
_SBATCH = re.compile(r"^#SBATCH\s+(.*)$", re.MULTILINE)
_GRES = re.compile(r"gpu(?::\w+)?:(\d+)")


def read_megatron(path: Path, variables: dict[str, str]) -> tuple[Settings, list[str]]:
    """(settings, warnings) of a script, a file of arguments, or YAML by its name. ConfigError: nothing of these."""
    if path.suffix in (".yaml", ".yml"):
        return Settings(str(path), yaml_settings(path)), []
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"cannot be read: {why_unreadable(error)}", "a launch script") from error
    script = Script(text, str(path), variables)
    found: dict[str, Setting] = {}
    loose: list[Word] = []  # of a file of arguments: lines that begin with one
    for command in script.commands():
        words = _split(command, str(path))
        if words and words[0].text.startswith("--"):
            loose += words
            words = loose
        if any(
            word.text in ("--num-layers", "--hidden-size") or word.text.startswith("--num-layers=") for word in words
        ):
            found = _settings(words, str(path))
    if not found:
        accepted = "a script that calls Megatron-LM with --num-layers and others, a file of such arguments, or .yaml"
        raise ConfigError(str(path), "no command with --num-layers", accepted)
    for name in ("WORLD_SIZE",):
        if name in script.values and "world_size" not in found:
            found["world_size"] = Setting(" ".join(script.values[name]), str(path), name)
    for key, one in _sbatch(text, str(path)).items():
        found.setdefault(key, one)
    return Settings(str(path), found), [
        f"{path}, line {line}: {name} is assigned in a branch; the last value in the script holds"
        for name, line in script.in_branches.items()
    ]


def _split(command: list[Word], path: str) -> list[Word]:
    """Words of a command; one that is a command line itself, as for sh -c, becomes its words."""
    words = []
    for word in command:
        if re.search(r"(^|\s)--[a-z]", word.text) and re.search(r"\s", word.text):
            words += [Word(w.text, word.line) for inner in Script(word.text, path).commands() for w in inner]
        else:
            words.append(word)
    return words


def _settings(words: list[Word], path: str) -> dict[str, Setting]:
    """Arguments of a launcher before the Python file, and of Megatron-LM behind it."""
    behind = max((i + 1 for i, word in enumerate(words) if word.text.endswith(".py")), default=0)
    module = max((i + 2 for i, word in enumerate(words) if word.text == "-m"), default=0)
    start = max(behind, module if behind == 0 else 0)
    found: dict[str, Setting] = {}
    for key, one in _pairs(words[:start], path):
        if key in LAUNCHERS:
            first = one.text.split()[:1]  # what follows is the program to start
            found[LAUNCHERS[key]] = one._replace(text="".join(first).rpartition(":")[2])
    for key, one in _pairs(words[start:], path):
        found[LAUNCHERS.get(key, key) if start == 0 else key] = one
    return found


def _pairs(words: list[Word], path: str) -> list[tuple[str, Setting]]:
    pairs: list[tuple[str, Setting]] = []
    for word in words:
        if re.match(r"--[A-Za-z]", word.text):
            name, is_pair, value = word.text.partition("=")
            key = name[2:].replace("-", "_")
            pairs.append((key, Setting(value if is_pair else "", f"{path}, line {word.line}", name)))
        elif re.match(r"-[A-Za-z]", word.text):
            key = {"-N": "nodes", "-n": "ntasks"}.get(word.text, "short")
            pairs.append((key, Setting("", f"{path}, line {word.line}", word.text)))
        elif pairs:
            key, one = pairs[-1]
            pairs[-1] = key, one._replace(text=f"{one.text} {word.text}".strip())
    return pairs


def _sbatch(text: str, path: str) -> dict[str, Setting]:
    """Nodes and GPUs per node that Slurm is asked for."""
    found: dict[str, Setting] = {}
    for match in _SBATCH.finditer(text):
        line = 1 + text.count("\n", 0, match.start())
        for key, one in _pairs([Word(w, line) for w in match[1].split("#")[0].split()], path):
            gpus = _GRES.search(one.text) if key in ("gres", "gpus_per_node") else None
            if key in LAUNCHERS or gpus:
                value = gpus[1] if gpus else one.text
                found.setdefault(LAUNCHERS.get(key, "nproc_per_node"), one._replace(text=value))
    return found


def yaml_settings(path: Path) -> dict[str, Setting]:
    """Keys of all sections, by their last name."""
    found: dict[str, Setting] = {}
    for name, (text, line) in flat_yaml(path).items():
        last = name.rpartition(".")[2].lstrip("-").replace("-", "_")
        key = OF_YAML.get(last, last)
        if text.lower() not in ("null", "none", "~", "") or last.startswith("--"):
            found[key] = Setting(text, f"{path}, line {line}", name)
    return found
