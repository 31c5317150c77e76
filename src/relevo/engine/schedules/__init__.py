"""Schedules: a pattern in, fires out. `timetable` says when, `schedules` stores them, `scheduler` fires what is due."""
