"""Programs for those who look after this repository."""
