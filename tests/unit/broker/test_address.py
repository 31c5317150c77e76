"""Addresses: every form of URL, and no password in any text."""

import pytest

from relevo.broker.address import Address, Node
from relevo.errors import BadUrl


@pytest.mark.parametrize(
    ("url", "kind", "nodes", "db"),
    [
        ("redis://", "single", [("127.0.0.1", 6379)], 0),
        ("redis://10.0.0.7", "single", [("10.0.0.7", 6379)], 0),
        ("redis://10.0.0.7:6380/2", "single", [("10.0.0.7", 6380)], 2),
        ("redis://10.0.0.7/?db=3", "single", [("10.0.0.7", 6379)], 3),
        ("REDIS://Host", "single", [("Host", 6379)], 0),
        ("10.0.0.7:6380", "single", [("10.0.0.7", 6380)], 0),
        ("localhost", "single", [("localhost", 6379)], 0),
        ("redis://[::1]:6380", "single", [("::1", 6380)], 0),
        ("redis://[::1]", "single", [("::1", 6379)], 0),
        ("valkey://host", "single", [("host", 6379)], 0),
        ("redis+cluster://a:1,b:2,c", "cluster", [("a", 1), ("b", 2), ("c", 6379)], 0),
        ("redis-cluster://a:1", "cluster", [("a", 1)], 0),
        ("redis+sentinel://a:1,b/main", "sentinel", [("a", 1), ("b", 26379)], 0),
        ("redis+sentinel://a/main/4", "sentinel", [("a", 26379)], 4),
    ],
)
def test_a_url_names_kind_places_and_database(url: str, kind: str, nodes: list[tuple[str, int]], db: int) -> None:
    address = Address.parse(url)
    assert (address.kind, list(address.nodes), address.db) == (kind, [Node(*node) for node in nodes], db)
    assert address.tls is None


def test_a_socket_file_is_a_place_too() -> None:
    address = Address.parse("unix:///run/redis%20one.sock?db=2")
    assert (address.nodes, address.db) == ((Node("", 0, "/run/redis one.sock"),), 2)


def test_a_sentinel_url_names_the_master() -> None:
    assert Address.parse("redis+sentinel://a,b/main").master == "main"


@pytest.mark.parametrize("url", ["rediss://a", "valkeys://a", "rediss+cluster://a", "rediss+sentinel://a/m"])
def test_a_second_s_means_tls(url: str) -> None:
    assert Address.parse(url).tls is not None


@pytest.mark.parametrize("url", ["redis://a", "redis+cluster://a", "a:1"])
def test_tls_can_be_asked_for_beside_the_url(url: str) -> None:
    assert Address.parse(url, tls=True).tls is not None


@pytest.mark.parametrize(
    ("url", "username", "password"),
    [
        ("redis://a", None, None),
        ("redis://:secret@a", None, "secret"),
        ("redis://ada:secret@a", "ada", "secret"),
        ("redis://ada@a", "ada", None),
        ("redis://ada:s%40%2F%3A%20x@a", "ada", "s@/: x"),
        ("redis://ada:s:t@a", "ada", "s:t"),
        ("redis://ada:s@t@a", "ada", "s@t"),
        ("redis+cluster://ada:secret@a:1,b:2", "ada", "secret"),
        ("redis+sentinel://ada:secret@a/main", "ada", "secret"),
        ("unix://ada:secret@/run/redis.sock", "ada", "secret"),
    ],
)
def test_user_and_password_are_read(url: str, username: str | None, password: str | None) -> None:
    address = Address.parse(url)
    assert (address.username, address.password) == (username, password)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter2@10.0.0.7:6380/2",
        "rediss://ada:hunter2@10.0.0.7",
        "redis+cluster://ada:hunter2@a:1,b:2",
        "redis+sentinel://ada:hunter2@a/main?sentinel_password=hunter2",
        "unix://ada:hunter2@/run/redis.sock",
    ],
)
def test_no_text_form_holds_the_password(url: str) -> None:
    address = Address.parse(url)
    assert "hunter2" not in f"{address} {address!r} {address.sentinel()} {address.sentinel()!r}"


def test_the_text_form_is_a_url_of_the_same_place() -> None:
    for url in ("redis://10.0.0.7:6380/2", "redis+cluster://a:1,b:2", "redis+sentinel://a:1,b:2/main/3"):
        assert str(Address.parse(url)) == url


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://ada:hunter2@a", "scheme"),
        ("redis://ada:hunter2@a:b", "port"),
        ("redis://ada:hunter2@a:0", "port"),
        ("redis://ada:hunter2@a:70000", "port"),
        ("redis://ada:hunter2@a/b", "database"),
        ("redis://ada:hunter2@a/?db=b", "database"),
        ("redis+sentinel://ada:hunter2@a", "master"),
        ("rediss://ada:hunter2@a?ssl_ca_certs=/no/such/file", "certificate"),
        ("redis://ada:hunter2/x@a", "percent"),
        ("redis://ada:hunter2#x@a", "percent"),
        ("redis://ada:hunter2?x@a", "percent"),
        ("redis://ada:x/hunter2@a", "percent"),
    ],
)
def test_a_bad_url_says_what_is_wrong_and_not_the_password(url: str, reason: str) -> None:
    with pytest.raises(BadUrl, match=reason) as refused:
        Address.parse(url)
    assert "hunter2" not in str(refused.value)


def test_the_sentinels_are_asked_with_their_own_password_and_no_database() -> None:
    way = Address.parse("redis+sentinel://ada:secret@a/main/3?sentinel_password=theirs").sentinel()
    assert (way.kind, way.username, way.password, way.db) == ("single", None, "theirs", 0)
