"""What tables and keys must satisfy together: faults, of which all are reported at once."""
