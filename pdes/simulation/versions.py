"""Which program this is, to the byte, and what is installed of others."""

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pdes.engine.jit import source_digest


@cache
def version_of(name: str) -> str:
    """Of an installed distribution."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


@cache
def program() -> str:
    """What has to be the same to take up a checkpoint: version and sources, as states follow from them."""
    root, digest = Path(__file__).resolve().parents[2], hashlib.sha256(source_digest().encode())
    for path in sorted(path for folder in ("pdes", "partition", "models") for path in (root / folder).rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return f"pdes-sim {version_of('pdes-sim')} ({digest.hexdigest()[:12]})"
