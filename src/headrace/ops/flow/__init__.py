"""Control flow, checks, printing, and edges between devices."""
