"""Erasures: what the messages about a person say is erased."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from relevo.contract.fields import CreatedAt, CreatedBy, RequestBody, Word, about, one_of

ErasureState = Literal["running", "done"]


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """An erasure and how far it is."""

    id: Annotated[str, about("The id of the erasure.")]
    subject_digest: Annotated[str, about("Whom it was about is known by a digest only.")]
    state: Annotated[str, one_of(ErasureState), about("Whether it is over.")]
    messages: Annotated[int, about("How many messages it is about.")]
    created_by: CreatedBy
    created_at: CreatedAt
    finished_at: Annotated[int | None, about("When it was over.")]


class ErasureIn(RequestBody):
    """Whom to forget."""

    subject: Annotated[Word, about("The value of the label `subject`.")]
