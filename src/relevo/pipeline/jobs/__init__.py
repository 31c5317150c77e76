"""The jobs people run on the lake: ingest, build, report, archive, replay, load, status. Each is one call, and one command."""
