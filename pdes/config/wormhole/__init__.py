"""[wormhole]: its table, what its keys must satisfy together, and the keys of earlier versions."""
