"""Suspension of packets: frozen, they stay in place, hidden; withdrawn, they leave, with markers for the end."""
