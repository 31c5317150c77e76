"""JSON Schemas that the bodies of a queue must fit."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Raw

from relevo.contract.fields import CreatedAt, CreatedBy, RequestBody, Slug, VersionNumber, about


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a JSON Schema. Versions never change."""

    name: Annotated[str, about("Its name.")]
    version: Annotated[int, about("Its version: 1, 2, 3 …")]
    definition: Annotated[Any, about("The schema itself.")]
    created_by: CreatedBy
    created_at: CreatedAt


class SchemaIn(RequestBody):
    """A schema to make, or a new version of it."""

    name: Annotated[Slug, about("Its name. If there is one, this becomes its next version.")]
    definition: Annotated[Raw, about("The schema itself.")]


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue asks of the bodies that are published to it."""

    queue: Annotated[str, about("The queue.")]
    schema: Annotated[str, about("The name of the schema.")]
    version: Annotated[int, about("Which version of it.")]


class BindingIn(RequestBody):
    """What bodies published to a queue must fit."""

    name: Annotated[Slug, about("The name of the schema.")]
    version: Annotated[VersionNumber | None, about("Which version; null for the latest.")] = None
    force: Annotated[bool, about("Also when messages that wait there do not fit.")] = False


class Compatibility(msgspec.Struct, frozen=True, kw_only=True):
    """How the messages that wait in a queue fit a schema."""

    looked_at: Annotated[int, about("How many were looked at.")]
    refused: Annotated[int, about("How many do not fit.")]
    examples: Annotated[list[str], about("Ids of some that do not fit, with the first fault of each.")]
