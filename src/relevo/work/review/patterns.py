"""Review patterns: specifications under a name, with versions that never change, and a preview of what people will see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from relevo.contract import reviews as contract
from relevo.contract.fields import about
from relevo.errors import BadReviewSpec, NotFound
from relevo.work.caller import Caller
from relevo.work.review.spec import ReviewSpec, decode_spec
from relevo.work.store.database import Database
from relevo.work.store.tables import review_patterns
from relevo.work.store.transactions import Transactions
from relevo.work.tenancy.versions import Versions


class PatternUse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a message names a pattern instead of carrying a specification. Without a version, the latest."""

    pattern: str
    version: int | None = None
    parameters: dict[str, Any] = {}


class Pattern(contract.Pattern, frozen=True, kw_only=True):
    """One version of a pattern. Versions never change."""

    spec: Annotated[ReviewSpec, about("What people are asked, with `{{parameter}}` where something is filled in.")]


class Patterns(Versions[Pattern]):
    """The review patterns of an installation."""

    def __init__(self, transactions: Transactions, database: Database) -> None:
        super().__init__(
            transactions, database, review_patterns, what="review pattern", audited="pattern", shown=_pattern
        )

    async def add(self, caller: Caller, scope: str, name: str, spec: ReviewSpec) -> Pattern:
        """A new version of a pattern, the first if there is none yet."""
        return await self._keep(caller, scope, name, lambda: msgspec.json.encode(spec.checked()).decode())

    async def preview(self, caller: Caller, scope: str, use: PatternUse, body: Any = None) -> ReviewSpec:
        """What people would see."""
        pattern = await self.get(caller, scope, use.pattern, use.version)
        return filled(pattern.spec, use.parameters, body)

    async def check(self, caller: Caller, scope: str, given: Mapping[str, Any]) -> None:
        """`BadReviewSpec` when no message whatever could be reviewed in this way."""
        if "pattern" not in given:
            decode_spec(msgspec.json.encode(given))
            return
        try:
            use = msgspec.convert(given, PatternUse)
            pattern = await self.get(caller, scope, use.pattern, use.version)
        except (msgspec.ValidationError, NotFound) as error:
            raise BadReviewSpec(reason=str(error)) from None
        missing = sorted(set(pattern.parameters) - set(use.parameters))
        if missing:
            raise BadReviewSpec(reason=f"the pattern {use.pattern!r} needs the parameter {', '.join(missing)}")

    async def resolve(self, caller: Caller, scope: str, given: bytes | str | msgspec.Raw, body: Any) -> ReviewSpec:
        """The specification that a message asks for, filled in: its own, or that of the pattern it names."""
        try:
            asked = msgspec.json.decode(given, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise BadReviewSpec(reason=str(error)) from None
        if "pattern" not in asked:
            return decode_spec(given).filled({}, body).checked()
        try:
            use = msgspec.convert(asked, PatternUse)
        except msgspec.ValidationError as error:
            raise BadReviewSpec(reason=str(error)) from None
        try:
            return await self.preview(caller, scope, use, body)
        except NotFound as error:
            raise BadReviewSpec(reason=str(error)) from None


def filled(spec: ReviewSpec, parameters: Mapping[str, Any], body: Any) -> ReviewSpec:
    """Filled in and checked once more; a parameter that the pattern does not know is a slip worth telling."""
    unknown = sorted(set(parameters) - {place.partition(".")[0] for place in spec.places()})
    if unknown:
        raise BadReviewSpec(reason=f"the pattern has no parameter {', '.join(unknown)}")
    return spec.filled(parameters, body).checked()


def _pattern(row: Any) -> Pattern:
    spec = decode_spec(row["definition"])
    return Pattern(
        name=row["name"],
        version=row["version"],
        spec=spec,
        parameters=sorted({place.partition(".")[0] for place in spec.places()}),
        created_by=row["created_by"],
        created_at=row["created_at"],
    )
