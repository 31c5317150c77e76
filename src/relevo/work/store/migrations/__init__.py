"""How the tables came to be what they are: one file a step, applied by `relevo db upgrade` (see store/alteration.py).

A step imports nothing of relevo but what lies in this folder: it stays what it is when the program goes on. The first one makes
the tables of `tables_0001`; each later one changes them, in an order that a running installation survives: first what is added,
then the rows, and in a later release what nobody reads any more.
"""
