# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportUnknownParameterType=false
# pyarrow comes without types.
"""Where a lake lies: a folder of this machine, or an address on S3, Azure, Google Cloud or HDFS.

The log is written by `deltalake`, data files by pyarrow: neither needs a JVM or a jar. Both take credentials from the
environment of the process that runs them, so no credential is ever part of an address, an option, a plan or a log.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow.fs as fs

from relevo.errors import CredentialsInAddress, StorageUnknown

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/")
_S3 = ("s3", "s3a")
_AZURE = ("abfss", "abfs")
KNOWN = (*_S3, *_AZURE, "gs", "hdfs", "file")


class Entry(NamedTuple):
    """A file in a storage: its path below the root, its size, and when it was written (seconds since 1970)."""

    path: str
    bytes: int
    written_s: float


@dataclass(frozen=True)
class Storage:
    """A folder of files, addressed by a path or a URI. Made anew in every process: it holds an address, and no connection.

    >>> Storage.at("s3://bucket/lake").below("gold/usage").uri
    's3://bucket/lake/gold/usage'
    """

    uri: str
    """A plain absolute path for a local folder, a URI for anything else; without a slash at its end."""

    @staticmethod
    def at(where: str | os.PathLike[str]) -> Storage:
        text = os.fspath(where)
        found = _SCHEME.match(text)
        if found is None:
            return Storage(str(Path(text).absolute()))
        scheme = found[1].lower()
        if scheme not in KNOWN:
            raise StorageUnknown(scheme=scheme, known=", ".join(f"{name}://" for name in KNOWN))
        parts = urlsplit(text)
        if parts.password or (parts.username and scheme in _S3):
            raise CredentialsInAddress(scheme=scheme, host=parts.hostname or "")
        if scheme == "file":
            return Storage(str(Path(unquote(parts.path)).absolute()))
        return Storage(text.rstrip("/"))

    @property
    def scheme(self) -> str:
        found = _SCHEME.match(self.uri)
        return "file" if found is None else found[1].lower()

    @property
    def is_local(self) -> bool:
        return self.scheme == "file"

    @property
    def name(self) -> str:
        return self.uri.rstrip("/").rpartition("/")[2]

    @property
    def folder(self) -> Path:
        """Of a lake on this machine."""
        return Path(self.uri)

    def below(self, path: str) -> Storage:
        return Storage(f"{self.uri}/{path}")

    # --- the two libraries ---------------------------------------------------------------------------------------------

    @property
    def for_delta(self) -> str:
        """The address as `deltalake` reads it."""
        return f"s3://{self.uri.partition('://')[2]}" if self.scheme == "s3a" else self.uri

    @property
    def for_spark(self) -> str:
        """The address as Hadoop reads it."""
        return f"s3a://{self.uri.partition('://')[2]}" if self.scheme == "s3" else self.uri

    def delta_options(self) -> dict[str, str]:
        """What `deltalake` does not find out by itself. Credentials it takes from the environment."""
        endpoint = _endpoint()
        if self.scheme not in _S3 or endpoint is None:
            return {}
        return {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower()}

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        """The file system of pyarrow, and the path in it."""
        if self.is_local:
            return fs.LocalFileSystem(), self.uri
        parts = urlsplit(self.uri)
        if self.scheme in _S3:
            return fs.S3FileSystem(**_s3_settings()), f"{parts.netloc}{parts.path}"
        if self.scheme in _AZURE:
            account = parts.netloc.partition("@")[2].partition(".")[0]
            return fs.AzureFileSystem(account_name=account), f"{parts.username}{parts.path}"
        if self.scheme == "gs":
            return fs.GcsFileSystem(), f"{parts.netloc}{parts.path}"
        return fs.FileSystem.from_uri(self.uri)

    def __getstate__(self) -> dict[str, str]:
        return {"uri": self.uri}  # a file system does not travel to another process

    def __setstate__(self, state: dict[str, str]) -> None:
        object.__setattr__(self, "uri", state["uri"])

    # --- files ---------------------------------------------------------------------------------------------------------

    def reader(self, path: str) -> Any:
        """A file that is open for reading at any place."""
        system, root = self._opened
        return system.open_input_file(f"{root}/{path}")

    def writer(self, path: str) -> Any:
        """A new file, open for writing; its folders are made."""
        system, root = self._opened
        full = f"{root}/{path}"
        if self.is_local:
            Path(full).parent.mkdir(parents=True, exist_ok=True)
        return system.open_output_stream(full)

    def size(self, path: str) -> int | None:
        """In bytes; None when there is no such file."""
        system, root = self._opened
        found = system.get_file_info(f"{root}/{path}")
        return found.size if found.type == fs.FileType.File else None

    def entries(self, path: str = "") -> Iterator[Entry]:
        """Every file below a folder; none when there is no such folder."""
        system, root = self._opened
        base = f"{root}/{path}".rstrip("/")
        for found in system.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=True)):
            if found.type == fs.FileType.File:
                yield Entry(found.path[len(root) + 1 :], found.size, (found.mtime_ns or 0) / 1e9)

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes files; those that are gone already are no error."""
        system, root = self._opened
        for path in paths:
            try:
                system.delete_file(f"{root}/{path}")
            except FileNotFoundError:
                continue
            except OSError:
                if self.size(path) is not None:
                    raise

    def read_bytes(self, path: str) -> bytes | None:
        """A small file whole; None when there is no such file."""
        try:
            with self.reader(path) as file:
                return file.readall()
        except FileNotFoundError:
            return None

    def read_json(self, path: str) -> Any:
        """None when there is no such file."""
        found = self.read_bytes(path)
        return None if found is None else json.loads(found)

    def write_json(self, path: str, value: object) -> None:
        """A new file, or a file in place of another: whole or not at all."""
        text = json.dumps(value, separators=(",", ":")).encode()
        if not self.is_local:  # an object appears when it is complete
            with self.writer(path) as file:
                file.write(text)
            return
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}")
        with draft.open("xb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)


def _endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def _s3_settings() -> dict[str, Any]:
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    endpoint = _endpoint()
    settings: dict[str, Any] = {} if region is None else {"region": region}
    if endpoint is not None:
        scheme, _, host = endpoint.rpartition("://")
        settings |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or "https"}
    return settings
