"""Measures relevo beside its rivals and beside the server's own ceiling, in one interleaved run. Ratios count."""
