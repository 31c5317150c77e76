"""How the tests are run: which ones, where, how many at once, for how long, and what the run says of them.

`plugin.py` is the pytest plugin that puts the parts together. With `-n` one process leads the run and others run the tests:

- `sample.py` picks the servers and databases of each test (`make test`), or one server for all (`make test BACKEND=valkey`).
- `needs.py` says what a test shares with others and how heavy it is; `turns.py` deals the tests out by that.
- `limits.py` ends a test that takes too long; `watch.py` kills a process that cannot end it.
- `leftovers.py` ends what tests started and left behind, also when the run was stopped or killed.
- `environment.py` fills .venv before all that.
- `progress.py` says how far the run is; `closing.py` names what failed, hung or did not run.
"""
