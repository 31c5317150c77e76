"""Stories of what goes wrong, one a file."""
