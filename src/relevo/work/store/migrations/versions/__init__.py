"""The steps, oldest first by their number. A step that was released is never edited: write the next one."""
