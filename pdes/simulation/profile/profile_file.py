"""Profiles in files: a NumPy archive with the arrays of all stretches one behind the other."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from partition.round_model import Mixture, Profile
from pdes.errors import ConfigError
from pdes.files import require_file
from pdes.simulation.profile.make import Profiled

ENTRIES = ("round_of", "lp", "ns")  # of Profile
FACTS = ("n_round", "n_reduction", "fixed_ns", "serial_ns", "weight")
ABOUT = ("kind", "is_whole", "seconds", "simulated_ps", "hops", "share")  # of Profiled


def write_profile(path: Path, found: Profiled, identity: dict[str, Any]) -> None:
    """Keep a profile. ConfigError: it cannot be written."""
    stretches = found.run.stretches
    facts = {
        "identity": identity, "about": {name: getattr(found, name) for name in ABOUT},
        "stretches": [{name: getattr(p, name) for name in FACTS} for p in stretches],
    }  # fmt: skip
    arrays: dict[str, Any] = {
        name: np.concatenate([np.zeros(0), *(getattr(p, name) for p in stretches)]) for name in ENTRIES
    }
    ends = np.cumsum([len(p.ns) for p in stretches], dtype=np.int64)
    arrays |= {"edges": np.stack(found.run.edges), "at_ps": found.at_ps, "ends": ends}
    try:
        with open(path, "wb") as file:
            np.savez_compressed(file, facts=np.array(json.dumps(facts)), **arrays)
    except OSError as error:
        raise ConfigError("--profile", f"{path}: {error.strerror}", "a file that can be written") from error


def read_profile(path: Path, identity: dict[str, Any]) -> Profiled:
    """A profile that was kept. ConfigError: it is none, or of another config."""
    accepted = "a file that plan --profile has written of this config"
    try:
        with open(require_file(path), "rb") as stream, np.load(stream, allow_pickle=False) as file:
            facts = json.loads(str(file["facts"]))
            round_of, lp, ns = (np.split(file[name], file["ends"][:-1]) for name in ENTRIES)
            profiles = [
                Profile(
                    of["n_round"], of["n_reduction"], rounds.astype(np.int64), lps.astype(np.int64), times,
                    of["fixed_ns"], of["serial_ns"], of["weight"],
                )
                for of, rounds, lps, times in zip(facts["stretches"], round_of, lp, ns, strict=True)
            ]  # fmt: skip
            src, dst, packets = file["edges"]
            run = Mixture(profiles, (src.astype(np.int64), dst.astype(np.int64), packets))
            found = Profiled(run, *(facts["about"][name] for name in ABOUT), at_ps=file["at_ps"])
            of = facts["identity"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, IndexError) as error:
        raise ConfigError("--profile", f"{path} is no profile ({error})", accepted) from error
    except Exception as error:  # what a torn archive raises is zipfile's own
        raise ConfigError("--profile", f"{path} is no whole profile ({error})", accepted) from error
    if of != identity:
        raise ConfigError("--profile", f"{path} is of another config", accepted)
    return found
