"""Handlers as machine code that the event loop calls by address.

Each is compiled for the three records and called as int f(result, exception, flow, event, parameters), all addresses,
result and exception being two words of scratch: 5 ns a call, from the disk cache after the first run. A status other
than OK means that it raised. Without the compiler the address is that of a callback that runs the plain function.
"""

import ctypes
import pickle
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import from_dtype, njit, types

from models.congestion.interface import EVENT, HANDLERS
from models.congestion.source import handler_of
from pdes.engine.compiling.loading import Loading
from pdes.engine.jit import JIT_DISABLED

STATUS_OK = (0, -2)  # returned; returned None
N_SCRATCH_WORD = 2

_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int, *([ctypes.c_int64] * 5))


class Handlers(NamedTuple):
    """Addresses of a control's handlers, 0 where it has none. alive: what must outlive the last call."""

    start: int
    on_ack: int
    on_cnp: int
    on_timer: int
    on_timeout: int
    alive: tuple[Any, ...]


def compile_handlers(control: type, flow_dtype: np.dtype, parameter_dtype: np.dtype) -> Handlers:
    """Compile every handler of a class, or load it from the disk cache. Raises what Numba raises."""
    addresses: list[int] = []
    alive: list[Any] = []
    for name in HANDLERS:
        function = handler_of(control, name)
        address, owner = (0, None) if function is None else _address(function, (flow_dtype, EVENT, parameter_dtype))
        addresses.append(address)
        alive.append(owner)
    return Handlers(*addresses, alive=tuple(alive))


def _address(function: Callable[..., None], dtypes: tuple[np.dtype, ...]) -> tuple[int, Any]:
    if JIT_DISABLED:
        plain = PlainHandler(function, dtypes)
        plain.callback = _PROTOTYPE(plain)
        return ctypes.cast(plain.callback, ctypes.c_void_p).value or 0, plain
    arguments = tuple(from_dtype(dtype) for dtype in dtypes)
    signature: Any = types.void(*arguments)
    options: Any = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    dispatcher: Any = njit(**options)(function)
    dispatcher._cache = Loading(function)
    dispatcher.compile(signature)
    dispatcher.disable_compile()
    result = dispatcher.overloads[arguments]
    return result.library.get_pointer_to_function(result.fndesc.llvm_func_name), dispatcher


class PlainHandler:
    """A handler without the compiler. error: what it raised last."""

    def __init__(self, function: Callable[..., None], dtypes: tuple[np.dtype, ...]) -> None:
        self.function, self.dtypes = function, dtypes
        self.callback: Any = None
        self.error: Exception | None = None

    def __call__(self, _result: int, _exception: int, *addresses: int) -> int:
        views = [_record_at(address, dtype) for address, dtype in zip(addresses, self.dtypes, strict=True)]
        try:
            run_plain(self.function, *views)
        except Exception as error:
            self.error = error
            return 1
        return 0


def run_plain(function: Callable[..., None], flow: Any, event: Any, p: Any) -> None:
    """Run a handler as Python, dividing by zero being an error as it is when compiled."""
    with np.errstate(all="ignore", divide="raise", invalid="raise"):
        function(flow, event, p)


def _record_at(address: int, dtype: np.dtype) -> Any:
    words: Any = (ctypes.c_char * dtype.itemsize).from_address(address)
    return np.frombuffer(words, dtype)[0]


class _ExceptionInfo(ctypes.Structure):
    """What a compiled function leaves behind when it raises, as Numba lays it out."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("n_byte", ctypes.c_int32),
        ("hashed", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("is_dynamic", ctypes.c_int32),
    )


def raised(address: int) -> tuple[str, int | None] | None:
    """(text, line) of a compiled handler's exception; None if it cannot be read; Numba's own have no line.

    address: what the call has left in the second word of its scratch.
    """
    if JIT_DISABLED or not address:
        return None
    info = _ExceptionInfo.from_address(address)
    if info.is_dynamic or not info.data or info.n_byte <= 0:
        return None
    try:
        kind, arguments, place = pickle.loads(ctypes.string_at(info.data, info.n_byte))
        text = traceback.format_exception_only(kind(*(arguments or ())))[-1].strip()
        return text, int(place[2]) if place else None
    except Exception:  # another version of Numba: the caller runs the plain function instead
        return None
