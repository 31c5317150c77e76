"""The names of keys, as the wire page has them."""

import pytest
from redis.crc import key_slot

from relevo.broker.address import slot_of
from relevo.wire.keys import QueueKeys

KEYS = QueueKeys("emails")

NAMES = {
    "stream": KEYS.stream,
    "dlq": KEYS.dead,
    "delayed": KEYS.delayed,
    "repeat": KEYS.repeat,
    "repeat:spec:a b": KEYS.repeat_spec("a b"),
    "events": KEYS.events,
    "promoter:lock": KEYS.promoter_lock,
    "scheduler:lock": KEYS.scheduler_lock,
    "stalled:lock": KEYS.stalled_lock,
    "paused": KEYS.paused,
    "limiter": KEYS.limiter,
    "dlid:01J9": KEYS.once("01J9"),
    "didx:01J9": KEYS.member_of("01J9"),
    "result:01J9": KEYS.result("01J9"),
    "progress:01J9": KEYS.progress("01J9"),
    "log:01J9": KEYS.log("01J9"),
    "sent:p": KEYS.sent("p"),
    "cap": KEYS.cap,
    "relayed": KEYS.relayed,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_key_is_the_queues_tag_and_a_name(name: str) -> None:
    assert NAMES[name] == b"{chasqui:emails}:" + name.encode()


@pytest.mark.parametrize("queue", ["emails", "a b", "größe", ":", "*", "\x00"])
def test_all_keys_of_a_queue_live_in_one_slot_whatever_its_name_and_its_ids(queue: str) -> None:
    keys = QueueKeys(queue)
    places = [keys.stream, keys.dead, keys.delayed, keys.events, keys.once("}{"), keys.result("{x}"), keys.tag]
    assert {slot_of(key) for key in places} == {key_slot(keys.stream)}


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"a",
        b"{a}b",
        b"{a}",
        b"x{a}y",
        b"{}",
        b"{}a",
        b"{",
        b"}",
        b"a{b",
        b"a}b{c}",
        b"{{a}}",
        b"{a}{b}",
        b"\xff\x00",
    ],
)
def test_a_slot_is_the_one_redis_computes(key: bytes) -> None:
    assert slot_of(key) == key_slot(key)
