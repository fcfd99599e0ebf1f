"""The congestion control's handlers as functions that kernels of any target can call.

The other engine calls a handler by its address, which a GPU cannot. Here the handler's own Python function is compiled
into the kernel: which one follows from the type of the flow's record, so kernels need not be made for a law, and stay
in the disk cache.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import from_dtype
from numba.extending import overload

from models.congestion.law import Law
from models.congestion.source import handler_of

_CONTROLS: dict[str, type] = {}  # by the text of a flow record's dtype
_TYPES: dict[Any, str] = {}  # the same texts by Numba's types


def know(law: Law) -> None:
    """Let kernels call the handlers of a law, by its flows' records."""
    text, control = _text(law.flow_dtype), law.control
    other = _CONTROLS.setdefault(text, control)
    for name in ("on_ack", "on_cnp", "on_timer"):  # laws without state have the same records, and no handlers
        assert handler_of(control, name) is handler_of(other, name), f"{control} and {other} have equal records"
    _TYPES[from_dtype(law.flow_dtype)] = text


def _text(dtype: np.dtype) -> str:
    return str(np.dtype(dtype).descr)


def _nothing(flow, event, p):
    """Of a law that has no such handler."""


def _plain(name: str) -> Callable[..., None]:
    def call(flow: Any, event: Any, p: Any) -> None:
        (handler_of(_CONTROLS[_text(flow.dtype)], name) or _nothing)(flow, event, p)

    return call


def _compiled(name: str) -> Callable[..., Any]:
    def choose(flow, event, p):  # noqa: ARG001
        text = _TYPES.get(flow)
        return None if text is None else handler_of(_CONTROLS[text], name) or _nothing

    return choose


on_ack, on_cnp, on_timer = _plain("on_ack"), _plain("on_cnp"), _plain("on_timer")
for _function, _name in ((on_ack, "on_ack"), (on_cnp, "on_cnp"), (on_timer, "on_timer")):
    overload(_function)(_compiled(_name))
