"""What may be an argument or a result of a task: each kind of value comes back as what it was, by way of plain values."""

import enum
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from relevo.engine.tasks.annotations import value_of
from relevo.engine.tasks.values import ANY, Mismatch
from relevo.wire.payload import decode_payload, encode_payload

T = TypeVar("T")
UserId = NewType("UserId", int)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Corner(enum.Enum):
    LOW = (0, 0)
    HIGH = (1, 1)


class Right(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


@dataclass
class Line:
    product: UUID
    price: Decimal
    tags: set[str] = field(default_factory=set[str])


@dataclass(frozen=True)
class Order:
    lines: list[Line]
    placed: datetime
    note: str | None = None
    before: "Order | None" = None


@dataclass
class Page(Generic[T]):
    items: list[T]


class Point(NamedTuple):
    x: float
    y: float = 0.0
    at: date | None = None


class Address(TypedDict):
    city: str
    since: date
    floor: NotRequired[Decimal]


class Event(msgspec.Struct, tag=True, rename="camel"):
    happened_at: datetime
    where: Path
    blob: bytes = b""


class Gone(msgspec.Struct, tag=True):
    at: datetime


class Person(BaseModel):
    name: str
    born: date = Field(alias="bornOn")
    home: Path | None = None


MOMENT = datetime(2026, 1, 31, 8, 0, 0, 123456, tzinfo=UTC)
NAIVE = datetime(2026, 1, 31)  # noqa: DTZ001 - people have them
ONE = UUID("12345678-1234-5678-1234-567812345678")
LINE = Line(ONE, Decimal("1.10"), {"new"})

CASES: list[tuple[Any, Any, Any]] = [
    (datetime, MOMENT, "2026-01-31T08:00:00.123456+00:00"),
    (datetime, NAIVE, "2026-01-31T00:00:00"),
    (datetime, MOMENT.astimezone(timezone(timedelta(hours=2, seconds=30))), "2026-01-31T10:00:30.123456+02:00:30"),
    (date, date(2026, 1, 31), "2026-01-31"),
    (time, time(8, 30, tzinfo=UTC), "08:30:00+00:00"),
    (timedelta, timedelta(days=1, seconds=2), "P1DT2S"),
    (timedelta, timedelta(microseconds=-1), "-PT0.000001S"),
    (UUID, ONE, str(ONE)),
    (Decimal, Decimal("1.10"), "1.10"),
    (Path, Path("/srv/a b"), "/srv/a b"),
    (PurePosixPath, PurePosixPath("a"), "a"),
    (bytes, b"\x00\xff", b"\x00\xff"),
    (bytearray, bytearray(b"ab"), bytearray(b"ab")),
    (Colour, Colour.RED, "red"),
    (Size, Size.LARGE, 2),
    (Corner, Corner.HIGH, "HIGH"),
    (Right, Right.READ | Right.WRITE, 3),
    (Literal["a", 1, Colour.BLUE], Colour.BLUE, "blue"),
    (set[int], {3}, [3]),
    (frozenset[UUID], frozenset({ONE}), [str(ONE)]),
    (tuple[date, ...], (date(2026, 1, 31),), ["2026-01-31"]),
    (tuple[int, Colour], (1, Colour.RED), [1, "red"]),
    (deque[int], deque([1, 2]), [1, 2]),
    (list[Decimal], [Decimal(1)], ["1"]),
    (Sequence[date], [date(2026, 1, 31)], ["2026-01-31"]),
    (dict[UUID, set[Size]], {ONE: {Size.SMALL}}, {str(ONE): [1]}),
    (Mapping[str, timedelta], {"a": timedelta(0)}, {"a": "P0D"}),
    (Line, LINE, {"product": str(ONE), "price": "1.10", "tags": ["new"]}),
    (Page[Colour], Page([Colour.RED]), {"items": ["red"]}),
    (Point, Point(1.0, 2.0, date(2026, 1, 31)), [1.0, 2.0, "2026-01-31"]),
    (Address, {"city": "Oslo", "since": date(2026, 1, 31)}, {"city": "Oslo", "since": "2026-01-31"}),
    (
        Event,
        Event(MOMENT, Path("/x"), b"\xff"),
        {"type": "Event", "happenedAt": "2026-01-31T08:00:00.123456Z", "where": "/x", "blob": b"\xff"},
    ),
    (Person, Person(name="Ada", bornOn=date(1815, 12, 10)), {"name": "Ada", "bornOn": "1815-12-10", "home": None}),
    (Annotated[datetime, "any remark"], MOMENT, MOMENT.isoformat()),
    (UserId, UserId(7), 7),
    (Optional[UUID], None, None),  # noqa: UP045 - as older code writes it
    (Optional[UUID], ONE, str(ONE)),  # noqa: UP045
    (Union[int, Decimal], Decimal(5), "5"),  # noqa: UP007
    (str | datetime, "tomorrow", "tomorrow"),
    (str | datetime, MOMENT, MOMENT.isoformat()),
    (date | datetime, date(2026, 1, 31), "2026-01-31"),
    (date | datetime, MOMENT, MOMENT.isoformat()),
    (Line | Point | None, LINE, {"product": str(ONE), "price": "1.10", "tags": ["new"]}),
    (Event | Gone, Gone(MOMENT), {"type": "Gone", "at": "2026-01-31T08:00:00.123456Z"}),
    (
        list[Person] | Person,
        Person(name="A", bornOn=date(2026, 1, 31)),
        {"name": "A", "bornOn": "2026-01-31", "home": None},
    ),
]


@pytest.mark.parametrize(("annotation", "value", "form"), CASES, ids=lambda each: str(each)[:40])
def test_a_value_travels_in_a_plain_form_and_comes_back_as_what_it_was(annotation: Any, value: Any, form: Any) -> None:
    kind = value_of(annotation)
    assert kind.encode(value) == form
    travelled = decode_payload(encode_payload(kind.encode(value), "job"))
    back = kind.decode(travelled)
    assert back == value
    assert type(back) is type(value)


def test_a_class_may_hold_itself() -> None:
    order = Order([LINE], MOMENT, before=Order([], MOMENT, note="first"))
    kind = value_of(Order)
    form = decode_payload(encode_payload(kind.encode(order), "job"))
    assert kind.decode(form) == order
    assert form["before"]["note"] == "first"


@pytest.mark.parametrize("annotation", [Any, object, T, Generic, "unresolved", type, Ellipsis])
def test_what_an_annotation_does_not_say_is_left_as_it_is(annotation: Any) -> None:
    assert value_of(annotation) is ANY


@pytest.mark.parametrize(
    ("annotation", "value", "said"),
    [
        (datetime, "2026-01-31", "expected datetime, got str '2026-01-31'"),
        (date, MOMENT, "expected date, got datetime"),
        (int, "5", "expected int, got str '5'"),
        (int, 1.5, "expected int, got float 1.5"),
        (str, None, "expected str, got None"),
        (str, b"x", "expected str, got bytes b'x'"),
        (list[int], (1, 2), "expected list[int], got tuple (1, 2)"),
        (list[int], [1, "2"], "[1]: expected int, got str '2'"),
        (dict[str, list[date]], {"a": [None]}, "['a'][0]: expected date, got None"),
        (Colour, "red", "expected Colour ('red', 'blue'), got str 'red'"),
        (Literal["a", "b"], "c", "expected 'a' or 'b', got str 'c'"),
        (Literal[1], True, "expected 1, got bool True"),
        (Line, Line(ONE, "1.10"), ".price: expected Decimal, got str '1.10'"),  # pyright: ignore[reportArgumentType]
        (Point, (1.0, 2.0), "expected Point, got tuple (1.0, 2.0)"),
        (Address, {"city": "Oslo"}, "expected Address, got no 'since'"),
        (UUID | None, "x", "expected UUID or None, got str 'x'"),
        (str | UUID, str(ONE), "got str, which would be read back as UUID"),
        (int | None, "5", "expected int or None, got str '5'"),
        (Event, Gone(MOMENT), "expected Event, got Gone"),
    ],
    ids=str,
)
def test_a_producer_is_told_what_does_not_fit_and_where(annotation: Any, value: Any, said: str) -> None:
    with pytest.raises(Mismatch) as caught:
        value_of(annotation).encode(value)
    place = f"{caught.value.place}: " if caught.value.place else ""
    assert said in place + caught.value.reason


def test_a_subclass_is_refused_where_it_would_come_back_as_less() -> None:
    class Special(Line): ...

    with pytest.raises(Mismatch, match="Line"):
        value_of(Line).encode(Special(ONE, Decimal(1)))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(int, True), (float, 5), (str, type("Safe", (str,), {})("safe")), (list[float], [1, 2.5])],
    ids=str,
)
def test_what_the_type_checker_allows_is_allowed(annotation: Any, value: Any) -> None:
    assert value_of(annotation).encode(value) == value


@pytest.mark.parametrize(
    ("annotation", "form", "value"),
    [
        (datetime, "2026-01-31T08:00:00Z", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        (datetime, "2026-01-31", NAIVE),
        (datetime, msgpack.Timestamp(0, 5000), datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=UTC)),
        (timedelta, 1.5, timedelta(seconds=1.5)),
        (Decimal, 5, Decimal(5)),
        (Decimal, 0.1, Decimal("0.1")),
        (bytes, "AP8=", b"\x00\xff"),
        (Point, {"x": 1.5}, Point(1.5)),
        (Point, [1.5], Point(1.5)),
        (Line, {"product": str(ONE), "price": 1, "newer": 1}, Line(ONE, Decimal(1))),
        (
            Address,
            {"city": "Oslo", "since": "2026-01-31", "x": 1},
            {"city": "Oslo", "since": date(2026, 1, 31), "x": 1},
        ),
    ],
    ids=str,
)
def test_producers_in_other_languages_are_understood(annotation: Any, form: Any, value: Any) -> None:
    assert value_of(annotation).decode(form) == value


@pytest.mark.parametrize(
    ("annotation", "form", "said"),
    [
        (datetime, "tomorrow", "expected datetime, got str 'tomorrow'"),
        (datetime, 5, "expected datetime, got int 5"),
        (int, "5", "expected int, got str '5'"),
        (Decimal, True, "expected Decimal, got bool True"),
        (Decimal, "x", "expected Decimal, got str 'x'"),
        (bytes, "no base64", "expected bytes or base64 text, got str 'no base64'"),
        (Colour, "green", "expected Colour ('red', 'blue'), got str 'green'"),
        (set[Any], [[1]], "expected set[Any], got"),
        (tuple[int, int], [1], "expected tuple[int, int], got list [1]"),
        (Line, {"price": "1"}, "expected Line, got no 'product'"),
        (Event, {"type": "Event"}, "missing required field `happenedAt`"),
        (Person, {"name": "Ada"}, "bornOn: Field required"),
        (Right, 64, "expected Right, got int 64"),
        (list[Line], [dict[str, str]()], "[0]: expected Line, got no 'product'"),
    ],
    ids=str,
)
def test_a_form_that_does_not_fit_is_told_too(annotation: Any, form: Any, said: str) -> None:
    with pytest.raises(Mismatch) as caught:
        value_of(annotation).decode(form)
    place = f"{caught.value.place}: " if caught.value.place else ""
    assert said in place + caught.value.reason


@dataclass
class Few:
    x: int


@dataclass
class Many:
    x: int
    y: int = 0


def test_members_of_a_union_are_told_apart_by_their_fields() -> None:
    kind = value_of(Few | Many)
    assert kind.decode(kind.encode(Many(1, 2))) == Many(1, 2)
    assert kind.decode(kind.encode(Few(1))) == Few(1)


MOMENTS = st.datetimes(timezones=st.none() | st.timezones() | st.just(UTC))
LINES = st.builds(Line, st.uuids(), st.decimals(allow_nan=False), st.sets(st.text(max_size=5), max_size=3))


@given(
    st.builds(
        Order,
        st.lists(LINES, max_size=3),
        st.datetimes(timezones=st.none() | st.just(UTC)),
        st.none() | st.text(max_size=5),
        st.none(),
    )
)
def test_every_order_comes_back(order: Order) -> None:
    kind = value_of(Order)
    assert kind.decode(decode_payload(encode_payload(kind.encode(order), "job"))) == order


@given(MOMENTS)
def test_every_moment_comes_back_as_the_same_instant(moment: datetime) -> None:
    kind = value_of(datetime)
    back = kind.decode(kind.encode(moment))
    assert back.isoformat() == moment.isoformat()


@given(
    st.dictionaries(
        st.sampled_from(Colour),
        st.lists(st.tuples(st.timedeltas(), st.times(), st.floats(allow_nan=False), st.binary(max_size=9)), max_size=3),
    )
)
def test_every_nesting_comes_back(value: Any) -> None:
    kind = value_of(dict[Colour, list[tuple[timedelta, time, float, bytes]]])
    assert kind.decode(decode_payload(encode_payload(kind.encode(value), "job"))) == value


@given(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.text(), st.uuids(), st.dates(), st.decimals()
    )
)
def test_a_union_gives_back_what_it_took_or_refuses(value: Any) -> None:
    kind = value_of(None | bool | int | str | UUID | date | Decimal)
    try:
        form = kind.encode(value)
    except Mismatch as refused:
        assert "read back as" in refused.given  # noqa: PT017 - only some values are refused
        return
    back = kind.decode(decode_payload(encode_payload(form, "job")))
    assert type(back) is type(value)
    assert repr(back) == repr(value)  # there is a NaN among the Decimals
