"""What gives the entries of a memo their meaning beyond their keys: if both are equal, so is the physics."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from models.network.skip.memo_states import is_well_formed
from models.network.state.parameters import NetworkParameters
from models.network.state.records import LINK_BITS, NEED_MESSAGES, NEED_PACKETS, NEED_ROWS, SEED, SLOT_PS
from pdes.engine.exchange import World
from pdes.engine.jit import source_digest
from pdes.skipping.replay.memo import Entry
from pdes.skipping.replay.memo_file import unpack

# Sizes of buffers and of steps, which change no result; and the seed: an exact entry is of a time without draws.
LEFT_OUT = (NEED_PACKETS, NEED_MESSAGES, NEED_ROWS, SLOT_PS, LINK_BITS, SEED)
SHARE_BYTES = 2**26


def memo_identity(
    parameters: NetworkParameters, constants: np.ndarray, law_parameters: np.ndarray, pint: np.ndarray,
    settings: dict[str, Any],
) -> bytes:  # fmt: skip
    """32 bytes. law_parameters: the congestion control's records; settings: what decides when episodes end."""
    kept, law = constants.copy(), parameters.law
    kept[list(LEFT_OUT)] = 0
    facts = {
        "code": source_digest(),
        "control": [law.name, law.digest, {name: repr(value) for name, value in parameters.law_values.items()}],
        "scheduler": [parameters.scheduler, list(parameters.queue_weight)],
        "settings": settings,
    }
    digest = hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=32)
    for array in (kept, law_parameters, pint):
        digest.update(np.ascontiguousarray(array).view(np.uint8).tobytes() + b"\0")
    return digest.digest()


def spread_entries(records: Mapping[bytes, bytes], world: World) -> tuple[dict[bytes, Entry], str | None]:
    """(entries on every rank, sha256 of their records), from those that rank 0 has read. None: there are none."""
    shares: list[dict[bytes, bytes]] = [{}]
    n_byte = 0
    for key, record in records.items():  # one message each: MPI's are at most 2 GB
        if n_byte > SHARE_BYTES:
            shares.append({})
            n_byte = 0
        shares[-1][key] = record
        n_byte += len(record)
    entries, digest = {}, hashlib.sha256()
    for i in range(world.bcast(len(shares))):
        for key, record in world.bcast(shares[i] if world.rank == 0 else None).items():
            entry = unpack(record)
            if entry is not None and is_well_formed(entry.words):
                entries[key] = entry
                digest.update(record)
    return entries, digest.hexdigest() if entries else None
