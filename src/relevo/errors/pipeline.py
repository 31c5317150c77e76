"""Errors of the data pipeline."""

from relevo.errors.tree import RelevoError


class DataLost(RelevoError):
    message = (
        "Entries of {stream} after {after} were trimmed before Spark read them ({start} to {end} was asked for); the "
        "oldest one left is {oldest}. "
        "Read more often, or let the stream keep more. With the option failOnDataLoss=false the rest is read and the "
        "gap is only logged."
    )


class RowsChanged(RelevoError):
    message = (
        "Partition {partition} of write {write!r} was begun before with other rows: {rows} of them are in queue "
        "{queue!r}, and the same first {rows} did not come again. Give the rows a fixed order "
        "(`sortWithinPartitions`), or a `job_id` column."
    )


class RowRefused(RelevoError):
    message = (
        "Row {row} of partition {partition} was refused by the work queue {queue}: {reason} ({code}). {remedy} Rows before it "
        "may be published already; written again with the same `writeId`, or by the same query, none of them is there twice."
    )


class WatchFailed(RelevoError):
    message = (
        "The watch stopped: {reason}. Start it again and it continues where it was; no alert is told twice as a job."
    )


class AlertNotDelivered(RelevoError):
    message = (
        "The webhook {url} did not take an alert in {tries} tries: {reason}. Nothing is lost: start the watch again when it "
        "answers, and it tells the same alerts."
    )


class JavaMissing(RelevoError):
    message = (
        "Spark needs Java 17 or newer, and none was found: {reason}. Install a JDK, set JAVA_HOME, or run `pip "
        "install 'relevo[java]'`."
    )


class SparkNotStarted(RelevoError):
    message = "Spark did not start: {reason}. The output of its JVM is in {log}."


class SparkFailed(RelevoError):
    message = "Spark stopped: {reason}. The output of its JVM is in {log}."


class WorkersFailed(RelevoError):
    message = (
        "Spark's Python processes failed {what} {tries} times in a row, the last time with: {reason}. The machine is "
        "probably short of processor time or memory: use fewer cores (`--master 'local[1]'`), end other programs, or run it "
        "again later."
    )


class NoLake(RelevoError, FileNotFoundError):
    message = (
        "There is no lake at {path!r}: fill one with `relevo pipeline ingest`, or name the right folder with `--lake`."
    )


class FileDamaged(RelevoError):
    message = (
        "The file {file} of table {table} cannot be read: {reason}. Nothing was changed. Restore it from a copy of "
        "the lake; silver and gold can also be deleted whole, both of them, and a build makes them again from bronze."
    )


class FilesNotShared(RelevoError):
    message = (
        "A task wrote {file} for table {table}, and the driver cannot see it: nothing was changed. The lake must be "
        "in a folder that the driver and all executors reach by the same path."
    )


class LakeTooNew(RelevoError):
    message = (
        "Table {table} was written by a newer relevo ({what} {theirs}, this one knows up to {ours}): upgrade relevo "
        "here. The table was not changed."
    )


class LakeChanged(RelevoError):
    message = (
        "Another process changed the same rows of table {table} first (its version is {version} now), and nothing of this "
        "write is visible: run it again. Two builds of one lake at a time cannot both be right."
    )


class LakeIsOld(RelevoError):
    message = (
        "Table {table} is of the form that relevo had before its lake was Delta: run `relevo pipeline migrate --lake …` "
        "once. No data file is copied."
    )


class StorageUnknown(RelevoError, ValueError):
    message = "A lake cannot lie at {scheme}://: name a folder, or an address that begins with {known}."


class CredentialsInAddress(RelevoError, ValueError):
    message = (
        "The address {scheme}://…@{host} holds credentials, and addresses are shown and logged: leave them out. They are "
        "taken from the environment (for S3: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, or the machine's role)."
    )


class SqlRefused(RelevoError, ValueError):
    message = "The query cannot be answered: {reason}. The tables are {tables}."


class TableBroken(RelevoError):
    message = (
        "Table {table} was not renewed because its new rows break a rule: {reasons}. Version {version} is still "
        "there, unchanged. Correct the rows and build again."
    )


class ArchiveMismatch(RelevoError):
    message = (
        "What was written of {table} to the lake differs from the database ({what}: {lake} against {database}): "
        "nothing was deleted. Run the archive job again."
    )


class IngestFailed(RelevoError):
    message = (
        "The ingest stopped: {reason}. The events read so far are in the lake. Run it again when the cause is gone; "
        "it continues from there."
    )


class RefreshFailed(RelevoError):
    message = (
        "`relevo pipeline refresh` ended with exit code {code}: {said}. `relevo pipeline status` shows the state of "
        "the lake."
    )
