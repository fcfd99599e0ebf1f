"""Links: packets on the wire, losses, links that change, how long packets take."""
