"""Measures a server: what it can do by itself, and what relevo makes of it. Behind `relevo bench` and `make bench`."""
