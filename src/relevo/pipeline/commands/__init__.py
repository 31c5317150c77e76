"""What people run on the lake: ingest, build, report, archive, replay, load, status, upkeep, watch.

Each is one call in Python and one command of `relevo pipeline`. One that ends by itself is a function of its name; one that
goes on until it is told to stop, or keeps count on the way, is a class of its name.
"""
