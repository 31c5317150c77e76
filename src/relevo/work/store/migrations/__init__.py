"""How the tables came to be what they are: one file a step, applied by `relevo db upgrade` (see store/schema.py)."""
