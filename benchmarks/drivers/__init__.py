"""One program a rival, run in a virtual environment of its own: takes a task in JSON, prints what it measured in JSON."""
