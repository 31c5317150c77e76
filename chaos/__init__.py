"""Faults under load: what must hold when processes die, pause and restart. `make chaos`."""
