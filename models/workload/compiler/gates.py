"""Gates between the streams of a GPU: their names, and which stream passes each."""

GATES = {
    "parameters": "main",  # of the next layer or bucket are there
    "credit": "gather",  # the main stream has got to a layer: the next may be gathered
    "updated": "gather",  # the iteration begins: parameters are those of the last optimizer step
    "gradients": "reduce",  # of a layer or bucket are there
    "reduced": "main",  # all gradients are
    "beside": "beside",  # an exchange beside the next computation may begin
    "joined": "main",  # and is done
    "beside-backward": "beside-backward",  # the same of a backward pass in turns with a forward pass
    "joined-backward": "main",
}
"""Gates of a GPU and the stream that passes each."""
TURNS = ("beside", "joined"), ("beside-backward", "joined-backward")
"""Of passes in turns, forward and backward: the stream of exchanges with its gate, and the gate behind them."""
GO, DONE = "go:", "done:"
"""Gates before and behind each part of a collective on a side stream: the prefix of its name."""


def passer_of(gate: str) -> str:
    """The stream that passes a gate; "" for a slot that is none."""
    if gate.startswith(GO):
        return gate.removeprefix(GO)
    return gate.removeprefix(DONE).split("/")[0] if gate.startswith(DONE) else GATES.get(gate, "")
