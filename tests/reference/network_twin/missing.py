"""What the sender of a queue pair with selective repeat knows is missing: whole packets, in plain lists and sets."""

Bounds = tuple[int, int, int]
"""(first byte, end, the flow that the packet ends or -1)"""


class Missing:
    """Packets sent and not acknowledged, those that the receiver holds, and those that were sent again."""

    def __init__(self, reorder_bytes: int) -> None:
        self.reorder_bytes = reorder_bytes
        self.sent: list[Bounds] = []
        self.held: set[int] = set()  # packets by their first bytes
        self.resent: set[int] = set()  # in this recovery
        self.lost_before = 0  # what begins before this byte, and is not held, is lost
        self.until: int | None = None  # the recovery lasts until this byte is acknowledged

    def learn(self, acked: int, next_byte: int, held: tuple[int, int] | None) -> None:
        """An acknowledgement, and the stretch of bytes that it says is held."""
        self.sent = [packet for packet in self.sent if packet[0] >= acked]
        if held is not None:
            self.held |= {first for first, end, _ in self.sent if held[0] <= first and end <= held[1]}
        if self.until is not None and acked >= self.until:
            self.until, self.lost_before = None, 0
        lost_before = max((end for first, end, _ in self.sent if first in self.held), default=0) - self.reorder_bytes
        if lost_before > max(self.lost_before, acked):
            self.lost_before = lost_before
            if self.until is None:
                self.until, self.resent = next_byte, set()

    def give_up(self, next_byte: int) -> None:
        """After a timeout, all that is not held is lost."""
        self.until, self.lost_before, self.resent = next_byte, next_byte, set()

    def first(self) -> Bounds | None:
        """The first packet that is lost and was not sent again."""
        lost = (packet for packet in self.sent if packet[0] < self.lost_before)
        return next((packet for packet in lost if packet[0] not in self.held | self.resent), None)

    def take(self) -> Bounds | None:
        """The same, and now it is sent again."""
        packet = self.first()
        if packet is not None:
            self.resent.add(packet[0])
        return packet
