"""NCCL's operations by the names that profilers and PyTorch have for them, and how many bytes they move."""

import re

from pdes.convert.profile.seen import RECEIVE, SEND
from pdes.errors import ConfigError
from pdes.units import parse_size_bytes

OPERATIONS = {
    "allreduce": "all-reduce", "allgather": "all-gather", "reducescatter": "reduce-scatter", "alltoall": "all-to-all",
    "alltoallv": "all-to-all", "broadcast": "broadcast", "reduce": "reduce", "gather": "gather", "scatter": "scatter",
    "barrier": "barrier", "send": SEND, "recv": RECEIVE,
}  # fmt: skip
ELEMENT_BYTES = {
    "double": 8, "long": 8, "complexfloat": 8, "complexdouble": 16, "float": 4, "int": 4, "half": 2, "bfloat16": 2,
    "short": 2, "byte": 1, "char": 1, "bool": 1, "float64": 8, "float32": 4, "float16": 2, "int64": 8, "int32": 4,
    "int16": 2, "int8": 1, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "uint64_t": 8,
}  # fmt: skip
_ENDINGS = re.compile(r"(_?(base|coalesced|oop|single|into|tensor|sparse))+$")
_KERNEL = re.compile(r"(?:nccl|rccl)\w*?[kK]ernel_?(\w+?)(?:_|\(|$)")
_CALL = re.compile(
    r"(?:p?nccl)(AllReduce|AllGather|ReduceScatter|AlltoAll|AllToAll|Broadcast|Bcast|Reduce|Send|Recv)\b"
)
MAX_BYTES = 2**50


def operation_of(name: str) -> str | None:
    """The operation that a collective's name means, such as "_allgather_base" or "ncclAllGather"; None: no idea."""
    plain = re.sub(r"^(nccl|c10d|pnccl)[:_]*", "", name.strip().lower()).strip("_")
    return OPERATIONS.get(_ENDINGS.sub("", plain).replace("_", "").replace("bcast", "broadcast"))


def is_communication(kernel: str) -> bool:
    """Whether a kernel is one of NCCL's, by its name."""
    return re.match(r"(void )?(n|r)ccl", kernel) is not None


def kernel_operation(kernel: str) -> str | None:
    """The operation in the name of one of NCCL's kernels; None: several have it, as sends and receives."""
    match = _KERNEL.search(kernel)
    return operation_of(match[1]) if match else None


def call_operation(text: str) -> str | None:
    """The operation of a call to NCCL that a range is named for."""
    match = _CALL.match(text)
    return operation_of(match[1]) if match else None


def element_bytes(dtype: str, where: str) -> int:
    """Bytes of a value. ConfigError: an unknown type."""
    name = dtype.strip().lower().removeprefix("torch.")
    if name.startswith("float8"):
        return 1
    if name not in ELEMENT_BYTES:
        raise ConfigError(
            where, f'dtype "{dtype[:40]}"', "Float, Half, BFloat16, Float8_e4m3fn, Double, Int, Long, ..."
        )
    return ELEMENT_BYTES[name]


def buffer_bytes(operation: str, in_bytes: int, out_bytes: int, n: int) -> int:
    """What a collective's size means: a rank's whole buffer, of gathers what is gathered, of scatters what is split."""
    if operation == "all-gather":
        return out_bytes or in_bytes * n
    if operation == "gather":
        return in_bytes * n
    if operation == "scatter":
        return out_bytes * n
    if operation == RECEIVE:
        return out_bytes or in_bytes
    return in_bytes or (out_bytes * n if operation == "reduce-scatter" else out_bytes)


def given_bytes(words: list[str]) -> dict[str, int]:
    """`--bytes ncclAllReduce=64MB` by operation. ConfigError: another form."""
    found = {}
    for word in words:
        name, is_pair, size = word.partition("=")
        operation = operation_of(name)
        if not is_pair or operation is None:
            raise ConfigError("--bytes", f"found {word[:60]!r}", "ncclAllReduce=64MB and the like, one each")
        try:
            found[operation] = parse_size_bytes(size)
        except ValueError as error:
            raise ConfigError(f"--bytes {name}", str(error), "a size such as 64MB") from error
    return found


def note(notes: dict[str, int], text: str) -> None:
    """Count something that people are told once."""
    notes[text] = notes.get(text, 0) + 1


def measured(name: str) -> str:
    """What people are told of a communication whose bytes are not known."""
    return f"{name[:40]}: its bytes are not in the profile, so the time that it took is kept as computing (or --bytes)"
