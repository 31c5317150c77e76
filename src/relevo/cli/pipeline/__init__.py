"""`relevo pipeline`: the commands, what they print, and the refresh as a task."""
