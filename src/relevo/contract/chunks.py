"""Chunks: long results in parts, while they are made."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from relevo.contract.fields import CreatedAt, RequestBody, Token, about

MOST_PARTS = 100_000

_FINAL = about("The last one: the whole becomes the result, if the message is completed without another.")


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a message's result."""

    number: Annotated[int, about("Its place: 1, 2, 3 …")]
    body: Annotated[Any, about("The part.")]
    final: Annotated[bool, _FINAL]
    created_at: CreatedAt


class Chunks(msgspec.Struct, frozen=True, kw_only=True):
    """Parts in their order."""

    stream: Annotated[
        str | None,
        about(
            "The claim that sent them. When it changes, the message was claimed anew, and what was read before is void."
        ),
    ]
    state: Annotated[str, about("The state of the message.")]
    complete: Annotated[bool, about("Whether the final part is among these: nothing follows.")]
    chunks: Annotated[list[Chunk], about("The parts.")]


class ChunkIn(RequestBody):
    """One part to append."""

    claim_token: Annotated[Token, about("The `claim_token` of the claim.")]
    body: Annotated[Raw, about("The part: any JSON value.")]
    number: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_PARTS)] | None,
        about("Its place. With it the part may be sent again after a lost answer; without it, it is the next."),
    ] = None
    final: Annotated[bool, _FINAL] = False
