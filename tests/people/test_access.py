"""A key may do what it says and what it was granted, where it says and where it was granted, as often as it may."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from relevo.contract.keys import KeyLimits, Permission
from relevo.errors import InvalidInput, NotFound, PermissionDenied, TooManyRequests, Unauthenticated
from relevo.work.access.key_policy import ScopedGrant, narrowed
from relevo.work.access.rate_limits import RateLimits
from relevo.work.audit.entries import AuditFilter
from relevo.work.caller import Caller
from tests.servers.leaks import KeyLeaks
from tests.servers.server import Server
from tests.servers.stores import STORES
from tests.support.desk import SCOPE, Desk
from tests.support.room import QUEUE, Room


def key(*permissions: Permission, scopes: Sequence[str] | None = None, queues: Sequence[str] | None = None) -> Caller:
    return Caller(
        tenant_id=1,
        actor="key:k",
        permissions=frozenset(permissions),
        request_id="r",
        scopes=None if scopes is None else frozenset(scopes),
        queues=None if queues is None else frozenset(queues),
    )


def gift(*permissions: Permission, scope: str = "s", queue: str | None = None) -> ScopedGrant:
    return ScopedGrant(scope, queue, frozenset(permissions))


# --- where a key and its grants reach --------------------------------------------------------------------------------------


def test_a_grant_for_a_scope_adds_its_permissions_there_and_nowhere_else() -> None:
    limited = key("view", scopes=["own"])
    there = narrowed(limited, [gift("publish")], "s", "q", "manage")
    assert (there.permissions, there.scopes, there.queues) == ({"publish"}, {"s"}, None)
    assert narrowed(limited, [gift("publish")], "own", "q", "manage") is limited
    assert narrowed(limited, [gift("publish")], "third", "q", "manage") is limited


def test_permissions_of_the_key_are_not_carried_into_a_scope_it_does_not_see() -> None:
    there = narrowed(key("manage", "view", scopes=["own"]), [gift("view")], "s", None, "manage")
    assert there.permissions == {"view"}


def test_what_the_key_has_itself_is_kept_beside_a_grant() -> None:
    there = narrowed(key("view"), [gift("publish")], "s", "q", "manage")
    assert (there.permissions, there.queues) == ({"view", "publish"}, None)


def test_a_grant_for_a_queue_holds_in_that_queue_only() -> None:
    limited = key("view", scopes=["own"])
    granted = [gift("publish", queue="q")]
    assert narrowed(limited, granted, "s", "q", "manage").permissions == {"publish"}
    assert narrowed(limited, granted, "s", "other", "manage") is limited


def test_a_key_of_the_whole_tenant_gets_no_more_elsewhere_by_a_grant_for_one_queue() -> None:
    there = narrowed(key("view"), [gift("manage", queue="q")], "s", "other", "manage")
    assert there.permissions == {"view"}


def test_without_a_queue_in_the_address_a_key_sees_the_queues_where_it_has_what_is_needed() -> None:
    granted = [gift("consume", queue="a"), gift("view", queue="b"), gift("consume", "view", queue="c")]
    limited = key("publish", scopes=["own"])
    assert narrowed(limited, granted, "s", None, "consume").queues == {"a", "c"}
    assert narrowed(limited, granted, "s", None, "view").queues == {"b", "c"}
    assert narrowed(limited, granted, "s", None, "manage") is limited


def test_the_queues_of_the_key_itself_are_not_widened_by_another_queues_grant() -> None:
    limited = key("consume", "manage", queues=["own"])
    there = narrowed(limited, [gift("view", queue="q")], "s", "q", "manage")
    assert (there.permissions, there.queues) == ({"view"}, {"q"})
    assert narrowed(limited, [gift("view", queue="q")], "s", None, "consume").queues == {"own"}


def test_the_listing_of_scopes_shows_what_was_granted() -> None:
    assert narrowed(key("view", scopes=["own"]), [gift("view")], None, None, "view").scopes == {"own", "s"}
    assert narrowed(key("publish"), [gift("view")], None, None, "view").scopes == {"s"}
    assert narrowed(key("publish"), [gift("publish")], None, None, "view").permissions == {"publish"}


# --- rows ------------------------------------------------------------------------------------------------------------------


async def made(desk: Desk, *permissions: Permission, **limits: Any) -> tuple[str, bytes]:
    new = await desk.work_queues.keys.create(desk.caller, "k", permissions=permissions, **limits)
    return new.key.id, new.secret.encode()


@pytest.mark.parametrize("store", STORES)
async def test_a_grant_is_known_at_the_next_use_and_taken_back_as_fast(desk: Desk) -> None:
    key_id, secret = await made(desk, "view")
    await desk.work_queues.keys.recognise(secret, "r")
    assert desk.work_queues.keys.policy(secret) is None
    grant = await desk.work_queues.access.grant(desk.caller, SCOPE, key_id, ["publish"], queue="jobs")
    await desk.work_queues.keys.recognise(secret, "r")
    standing = desk.work_queues.keys.policy(secret)
    assert standing is not None
    assert standing.grants == (ScopedGrant(SCOPE, "jobs", frozenset({"publish"})),)
    assert (await desk.work_queues.access.list(desk.caller, SCOPE)).items == [grant]
    await desk.work_queues.access.revoke(desk.caller, SCOPE, grant.id)
    await desk.work_queues.keys.recognise(secret, "r")
    assert desk.work_queues.keys.policy(secret) is None
    audit = await desk.work_queues.audit.list(desk.caller, AuditFilter(target=grant.id))
    assert [entry.action for entry in audit.items] == ["grant.revoke", "grant.create"]


@pytest.mark.parametrize("store", STORES)
async def test_nobody_grants_what_they_have_not(desk: Desk) -> None:
    key_id, _ = await made(desk, "view")
    manager = Caller(
        tenant_id=desk.caller.tenant_id, actor="key:m", permissions=frozenset({"manage", "view"}), request_id="r"
    )
    with pytest.raises(PermissionDenied):
        await desk.work_queues.access.grant(manager, SCOPE, key_id, ["publish"])
    of_one_queue = replace(desk.caller, actor="key:m", queues=frozenset({"jobs"}))
    with pytest.raises(PermissionDenied):
        await desk.work_queues.access.grant(of_one_queue, SCOPE, key_id, ["view"])
    await desk.work_queues.access.grant(of_one_queue, SCOPE, key_id, ["view"], queue="jobs")


@pytest.mark.parametrize("store", STORES)
async def test_a_key_of_another_tenant_is_not_found(desk: Desk) -> None:
    other = await desk.work_queues.tenants.create("other")
    foreign = await desk.work_queues.keys.create(desk.work_queues.tenants.caller(other), "k")
    with pytest.raises(NotFound):
        await desk.work_queues.access.grant(desk.caller, SCOPE, foreign.key.id, ["view"])
    with pytest.raises(NotFound):
        await desk.work_queues.access.limit(desk.caller, foreign.key.id, KeyLimits(requests_per_s=1))
    with pytest.raises(NotFound):
        await desk.work_queues.keys.rotate(desk.caller, foreign.key.id)


@pytest.mark.parametrize("store", STORES)
async def test_a_deleted_queue_takes_its_grants_with_it_and_a_deleted_scope_all_of_its_own(desk: Desk) -> None:
    key_id, _ = await made(desk, "view")
    await desk.work_queues.access.grant(desk.caller, SCOPE, key_id, ["publish"], queue="jobs")
    await desk.work_queues.access.grant(desk.caller, SCOPE, key_id, ["view"])
    await desk.work_queues.webhooks.create(desk.caller, SCOPE, "https://example.org/")
    await desk.work_queues.erasures.start(desk.caller, SCOPE, "nobody")
    await desk.work_queues.queues.delete(desk.caller, SCOPE, "jobs")
    assert len((await desk.work_queues.access.list(desk.caller, SCOPE)).items) == 1
    await desk.work_queues.scopes.delete(desk.caller, SCOPE)


@pytest.mark.parametrize("store", STORES)
async def test_after_a_rotation_both_secrets_work_until_the_grace_is_over(desk: Desk) -> None:
    key_id, old = await made(desk, "view")
    await desk.work_queues.keys.recognise(old, "r")
    turned = await desk.work_queues.keys.rotate(desk.caller, key_id, grace_s=60)
    new = turned.secret.encode()
    for secret in (old, new):
        assert (await desk.work_queues.keys.recognise(secret, "r")).actor == f"key:{key_id}"
    desk.clock.turn(s=61)
    with pytest.raises(Unauthenticated):
        await desk.work_queues.keys.recognise(old, "r")
    assert (await desk.work_queues.keys.recognise(new, "r")).actor == f"key:{key_id}"


@pytest.mark.parametrize("store", STORES)
async def test_a_second_rotation_ends_the_oldest_secret_at_once(desk: Desk) -> None:
    key_id, oldest = await made(desk, "view")
    await desk.work_queues.keys.rotate(desk.caller, key_id)
    await desk.work_queues.keys.rotate(desk.caller, key_id, grace_s=0)
    with pytest.raises(Unauthenticated):
        await desk.work_queues.keys.recognise(oldest, "r")


@pytest.mark.parametrize("store", STORES)
async def test_a_rotation_is_no_way_to_rights_that_one_has_not(desk: Desk) -> None:
    key_id, _ = await made(desk, "view", "publish", "manage")
    manager = Caller(tenant_id=desk.caller.tenant_id, actor="key:m", permissions=frozenset({"manage"}), request_id="r")
    with pytest.raises(PermissionDenied):
        await desk.work_queues.keys.rotate(manager, key_id)


@pytest.mark.parametrize("store", STORES)
async def test_secrets_of_a_rotation_are_not_in_the_audit(desk: Desk) -> None:
    key_id, old = await made(desk, "view")
    turned = await desk.work_queues.keys.rotate(desk.caller, key_id)
    entries = str((await desk.work_queues.audit.list(desk.caller, AuditFilter(target=key_id))).items)
    assert turned.secret not in entries
    assert old.decode() not in entries


@pytest.mark.parametrize("store", STORES)
async def test_limits_are_set_read_and_checked(desk: Desk) -> None:
    key_id, _ = await made(desk, "view")
    assert await desk.work_queues.access.limits(desk.caller, key_id) == KeyLimits()
    wanted = KeyLimits(requests_per_s=5, burst=10, max_body_bytes=1_000)
    await desk.work_queues.keys.rotate(desk.caller, key_id)
    assert await desk.work_queues.access.limit(desk.caller, key_id, wanted) == wanted
    assert await desk.work_queues.access.limits(desk.caller, key_id) == wanted
    with pytest.raises(InvalidInput, match="burst"):
        await desk.work_queues.access.limit(desk.caller, key_id, KeyLimits(burst=3))


# --- how often -------------------------------------------------------------------------------------------------------------


async def taken(limits: RateLimits, tries: int, rate: int, burst: int) -> int:
    done = 0
    for _ in range(tries):
        try:
            await limits.take("k", rate, burst)
            done += 1
        except TooManyRequests:
            pass
    return done


async def test_a_key_gets_its_burst_and_then_waits() -> None:
    limits = RateLimits(None)
    limits.open("i")
    assert await taken(limits, 20, rate=1, burst=5) == 5
    with pytest.raises(TooManyRequests, match=r"may send 1 requests a second: wait [0-9.]+ s"):
        await limits.take("k", 1, 5)


async def test_with_redis_two_nodes_share_one_bucket(valkey: Server, key_leaks: KeyLeaks) -> None:
    key_leaks.allow()
    first, second = RateLimits(valkey.url), RateLimits(valkey.url)
    for limits in (first, second):
        limits.open("shared-limits")
    try:
        assert await taken(first, 6, rate=1, burst=10) == 6
        assert await taken(second, 20, rate=1, burst=10) in (4, 5)  # a second may pass meanwhile
    finally:
        await first.close()
        await second.close()


async def test_while_redis_is_away_each_node_counts_for_itself(unused_tcp_port: int) -> None:
    limits = RateLimits(f"redis://127.0.0.1:{unused_tcp_port}")
    limits.open("i")
    try:
        assert await taken(limits, 20, rate=1, burst=5) in (5, 6)
    finally:
        await limits.close()


# --- over HTTP -------------------------------------------------------------------------------------------------------------


async def test_a_granted_key_does_over_http_what_it_was_granted(room: Room) -> None:
    new = await room.do("POST", "/v1/keys", {"name": "guest", "permissions": ["view"], "scopes": ["nowhere"]})
    guest, key_id = new["secret"], new["key"]["id"]
    assert await room.problem("POST", f"{QUEUE}/messages", {"body": 1}, key=guest) == (403, "PERMISSION_DENIED")
    assert await room.do("GET", "/v1/scopes", key=guest) == []
    body = {"key_id": key_id, "permissions": ["publish"], "queue": "invoices"}
    grant = await room.do("POST", "/v1/scopes/billing/grants", body)
    message = await room.do("POST", f"{QUEUE}/messages", {"body": 1}, key=guest)
    assert await room.problem("POST", f"{QUEUE}/claim", {}, key=guest) == (403, "PERMISSION_DENIED")
    assert await room.problem("GET", f"/v1/scopes/billing/messages/{message['id']}", key=guest) == (404, "NOT_FOUND")
    more = await room.do(
        "POST", "/v1/scopes/billing/grants", {"key_id": key_id, "permissions": ["consume"], "queue": "invoices"}
    )
    (claimed,) = await room.do("POST", f"{QUEUE}/claim", {}, key=guest)
    settle = f"/v1/scopes/billing/messages/{claimed['id']}/complete"
    assert (await room.do("POST", settle, {"claim_token": claimed["claim_token"]}, key=guest))["state"] == "completed"
    for each in (grant, more):
        await room.do("DELETE", f"/v1/scopes/billing/grants/{each['id']}")
    assert (await room.problem("POST", f"{QUEUE}/messages", {"body": 1}, key=guest))[0] in (403, 404)


async def test_a_limited_key_is_told_to_wait_on_every_kind_of_route(room: Room) -> None:
    new = await room.do("POST", "/v1/keys", {"name": "eager", "permissions": ["view", "publish"]})
    eager, key_id = new["secret"], new["key"]["id"]
    await room.do("PUT", f"/v1/keys/{key_id}/limits", {"requests_per_s": 1, "burst": 2, "max_body_bytes": 100})
    assert (await room.ask("GET", "/v1/scopes", key=eager)).status_code == 200
    assert await room.problem("POST", f"{QUEUE}/messages", {"body": "x" * 200}, key=eager) == (413, "BODY_TOO_LARGE")
    refused = await room.ask("POST", f"{QUEUE}/messages", {"body": 1}, key=eager)
    if refused.status_code == 201:  # a second has passed meanwhile: a token came
        refused = await room.ask("GET", "/v1/scopes", key=eager)
    assert (refused.status_code, refused.json()["code"]) == (429, "RATE_LIMITED")
    assert "retry-after" in refused.headers


async def test_a_key_is_rotated_over_http(room: Room) -> None:
    new = await room.do("POST", "/v1/keys", {"name": "old", "permissions": ["view"]})
    turned = await room.do("POST", f"/v1/keys/{new['key']['id']}/rotate", {"grace_s": 0})
    assert await room.problem("GET", "/v1/scopes", key=new["secret"]) == (401, "UNAUTHENTICATED")
    await room.do("GET", "/v1/scopes", key=turned["secret"])
