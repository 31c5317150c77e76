"""bronze: every event and every archived row once, as it came; and what of it could not be read."""
