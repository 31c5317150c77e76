"""A server's settings as a queue sees them: what can be done, what endangers jobs, and the remedy for each danger."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from relevo.broker.link import Link
from relevo.broker.resp import Reply, ReplyError, command

_SETTINGS = ("appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy", "min-replicas-to-write")
_OLDEST_TESTED = (7, 0)
_SKEW_LIMIT_MS = 1000
_NEARLY_FULL = 0.85


class Level(StrEnum):
    """How bad a finding is: `danger` means that jobs can be lost or cannot run."""

    OK = "ok"
    NOTE = "note"
    DANGER = "danger"


@dataclass(frozen=True)
class Finding:
    """One thing looked at, what was found, and what to do about it."""

    level: Level
    subject: str
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class Facts:
    """What the server said about itself. A setting it would not tell (managed servers forbid CONFIG) is missing."""

    info: Mapping[str, str]
    settings: Mapping[str, str]
    ack_delete: bool
    read_claim: bool
    may_run_scripts: bool
    clock_skew_ms: int

    @staticmethod
    async def ask(link: Link) -> Facts:
        await link.ready()
        sent_ms = time.time() * 1000
        wanted = (
            command("TIME"),
            command("INFO"),
            command("EVAL", "return 1", 0),
            *(command("CONFIG", "GET", name) for name in _SETTINGS),
        )
        replies = await link.send(b"".join(wanted), len(wanted))
        here_ms = (sent_ms + time.time() * 1000) / 2
        clock: Reply = link.checked(replies[0], "TIME")
        info: Reply = b"" if isinstance(replies[1], ReplyError) else replies[1]
        settings = {
            name: reply[1].decode()
            for name, reply in zip(_SETTINGS, replies[3:], strict=True)
            if not isinstance(reply, ReplyError) and len(reply) > 1
        }
        return Facts(
            info=_info(info.decode()),
            settings=settings,
            ack_delete=link.capabilities.ack_delete,
            read_claim=link.capabilities.read_claim,
            may_run_scripts=not isinstance(replies[2], ReplyError),
            clock_skew_ms=round(int(clock[0]) * 1000 + int(clock[1]) / 1000 - here_ms),
        )

    @property
    def server(self) -> str:
        """Name and version: "Redis 8.6.3", "Valkey 9.1.0"."""
        if "valkey_version" in self.info:
            return f"Valkey {self.info['valkey_version']}"
        return f"Redis {self.info.get('redis_version', 'of an unknown version')}"

    def setting(self, name: str, in_info: str = "") -> str | None:
        return self.settings.get(name, self.info.get(in_info))

    def number(self, name: str, in_info: str = "") -> int:
        text = self.setting(name, in_info) or "0"
        return int(text) if text.isdecimal() else 0


def check_up(facts: Facts) -> list[Finding]:
    """Everything looked at, in the order of the table."""
    return [
        _version(facts),
        _native(facts.ack_delete, "XACKDEL", "ack and delete in a MULTI, or in the settling script", "8.2"),
        _native(facts.read_claim, "XREADGROUP CLAIM", "abandoned jobs are looked for by a script, every second", "8.4"),
        _scripts(facts),
        _persistence(facts),
        *_last_writes(facts),
        _eviction(facts),
        *_memory(facts),
        *_role(facts),
        _clock(facts),
    ]


def _version(facts: Facts) -> Finding:
    text = facts.info.get("redis_version", "")
    parts = tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())
    if not parts:
        return Finding(Level.NOTE, "server", "its version is not told", "Let the user run INFO to have it checked.")
    if parts < _OLDEST_TESTED:
        remedy = "relevo is tested on Redis 7.0 and newer and on Valkey 9: upgrade the server."
        return Finding(Level.DANGER, "server", facts.server, remedy)
    return Finding(Level.OK, "server", facts.server)


def _native(there: bool, name: str, instead: str, since: str) -> Finding:
    found = "native" if there else f"fallback: {instead}"
    return Finding(Level.OK, name, found, "" if there else f"Nothing is lost without it; Redis {since} has it.")


def _scripts(facts: Facts) -> Finding:
    if facts.may_run_scripts:
        return Finding(Level.OK, "scripts", "allowed")
    remedy = "Allow the user EVAL and EVALSHA (ACL SETUSER <user> +@scripting): retries and dead letters need them."
    return Finding(Level.DANGER, "scripts", "EVAL is refused", remedy)


def _persistence(facts: Facts) -> Finding:
    save = facts.settings.get("save")
    if (facts.setting("appendonly", "aof_enabled") or "") in ("yes", "1"):
        fsync = facts.settings.get("appendfsync", "unknown")
        lost = {
            "always": "nothing that was acknowledged is lost",
            "everysec": "a power cut may lose the last second or two",
            "no": "a power cut may lose what the system had not written yet, often half a minute",
        }.get(fsync, "how often it is written to disk is not told")
        level = Level.NOTE if fsync == "no" else Level.OK
        remedy = "CONFIG SET appendfsync everysec (or always)." if fsync == "no" else ""
        return Finding(level, "persistence", f"append-only file, fsync {fsync}: {lost}", remedy)
    remedy = "CONFIG SET appendonly yes, and put it into the server's configuration file."
    if save is None:
        found = "no append-only file; whether snapshots are made is not told"
        return Finding(Level.NOTE, "persistence", found, remedy)
    if save:
        found = f"snapshots only (save {save}): a crash loses every job since the last one"
        return Finding(Level.DANGER, "persistence", found, remedy)
    return Finding(Level.DANGER, "persistence", "none: a restart of the server loses every job", remedy)


def _last_writes(facts: Facts) -> list[Finding]:
    broken = [
        name
        for name in ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status")
        if facts.info.get(name, "ok") != "ok"
    ]
    if not broken:
        return []
    remedy = (
        "Look at the server's log and at its disk: while this lasts it may refuse writes, and a restart loses jobs."
    )
    return [Finding(Level.DANGER, "disk", f"the last write failed ({', '.join(broken)})", remedy)]


def _eviction(facts: Facts) -> Finding:
    policy = facts.setting("maxmemory-policy", "maxmemory_policy")
    if policy is None:
        return Finding(Level.NOTE, "eviction", "not told", "Make sure that maxmemory-policy is noeviction.")
    remedy = "CONFIG SET maxmemory-policy noeviction: a full server then refuses adds instead of deleting jobs."
    if policy == "noeviction":
        return Finding(Level.OK, "eviction", "noeviction")
    if facts.number("maxmemory", "maxmemory") == 0:
        found = f"{policy}, without effect while maxmemory is 0"
        return Finding(Level.NOTE, "eviction", found, remedy)
    if policy.startswith("allkeys"):
        return Finding(Level.DANGER, "eviction", f"{policy}: a full server deletes whole queues", remedy)
    found = f"{policy}: a full server forgets unique ids, results and locks, never queues"
    return Finding(Level.DANGER, "eviction", found, remedy)


def _memory(facts: Facts) -> list[Finding]:
    limit, used = facts.number("maxmemory", "maxmemory"), facts.number("used_memory", "used_memory")
    if limit == 0 or used == 0:
        return []
    found = f"{used / limit:.0%} of {limit:,} bytes in use"
    if used < limit * _NEARLY_FULL:
        return [Finding(Level.OK, "memory", found)]
    remedy = "Raise maxmemory, add workers, or purge dead letters; when it is full, adds are refused."
    return [Finding(Level.DANGER, "memory", found, remedy)]


def _role(facts: Facts) -> list[Finding]:
    if facts.info.get("role", "master") != "master":
        remedy = "Name the master, or use redis+sentinel:// or redis+cluster:// to have it found."
        return [Finding(Level.DANGER, "role", "a replica: it refuses every write", remedy)]
    replicas = facts.number("connected_slaves", "connected_slaves")
    if replicas and facts.number("min-replicas-to-write") == 0:
        remedy = "CONFIG SET min-replicas-to-write 1 (and min-replicas-max-lag 10) bounds what a failover can lose."
        found = f"{replicas} replica(s), written to later: a failover may lose the last acknowledged jobs"
        return [Finding(Level.NOTE, "replicas", found, remedy)]
    return [Finding(Level.OK, "replicas", f"{replicas} replica(s)")] if replicas else []


def _clock(facts: Facts) -> Finding:
    found = f"{facts.clock_skew_ms:+d} ms from this machine's"
    if abs(facts.clock_skew_ms) <= _SKEW_LIMIT_MS:
        return Finding(Level.OK, "clock", found)
    remedy = "Run NTP on both: a delayed job is due by the producer's clock and promoted by the server's."
    return Finding(Level.NOTE, "clock", found, remedy)


def _info(text: str) -> dict[str, str]:
    lines = (line.partition(":") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in lines}
