"""Which volumes of a table are meant: an interval of a hash of the volume's id, or of what its columns say."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from engine.declare.dataset_type import Frozen, without_defaults


def id_fraction(volume_id: str, salt: str) -> float:
    """Where an id falls in [0, 1): the first 8 bytes of BLAKE2b(salt, id) as a fraction of 2**64.

    The same id and salt give the same fraction on every machine, so a split never moves a volume
    from one side to the other when volumes are added.
    """
    # 53 bits: what a float holds exactly, so that the result is always below 1.0.
    return (int.from_bytes(id_digests([volume_id.encode()], salt), "big") >> 11) / 2**53


def id_digests(ids: Iterable[bytes], salt: str) -> bytes:
    """What `id_fraction` is made of, for many ids in UTF-8: eight bytes for each, one after the other."""
    key = hashlib.blake2b(salt.encode(), digest_size=16).digest()
    return b"".join([hashlib.blake2b(volume_id, digest_size=8, salt=key).digest() for volume_id in ids])


class Selection(Frozen):
    """The volumes whose `id_fraction(key, salt)` lies in [low, high), or with `outside` those whose does not.

    The key is the volume's id, or what its columns `by` say: their values, so that volumes with equal ones are never
    parted, or with `blocks` (a length for each of them) the block of space that a position lies in, of its `source`
    where a column for that is named. A volume without a value has its id for a key. `nodes.table.selection` says which
    rows a selection holds.
    """

    salt: str
    low: Annotated[float, Field(ge=0, le=1)]
    high: Annotated[float, Field(ge=0, le=1)]
    outside: bool = False
    by: tuple[str, ...] = ()
    strata: tuple[tuple[str, float, float], ...] = ()
    """Other ends for the volumes with a label, given as text ("" for none): label, low, high."""
    blocks: tuple[float, ...] = ()
    source: str = ""
    """With `blocks`: the column that says which space a position is in. Those of different sources are never near."""
    gap: tuple[float, ...] = ()
    """With `blocks`: volumes whose position is within this distance, on every axis, of a block in `clear_of` are left
    out."""
    clear_of: tuple[float, float] | None = None
    """Ends of the blocks' fractions that the volumes must stay away from."""
    since: str | None = None
    """With one column `by`: only values from this one on, as text; no fraction decides then."""
    until: str | None = None
    """The same up to this value, without it."""

    @model_validator(mode="after")
    def _ordered(self) -> Selection:
        if self.low > self.high:
            raise ValueError("a selection's low end lies above its high end")
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what is at its default: references that were stored before it existed mean the same."""
        optional = [name for name, field in Selection.model_fields.items() if not field.is_required()]
        return without_defaults(self, handler(self), optional)

    @property
    def by_id(self) -> bool:
        """Whether the id alone decides."""
        return not (self.by or self.strata)

    def holds(self, volume_id: str) -> bool:
        """Whether the volume belongs to the selection. Raises `ValueError` where its id does not decide."""
        if not self.by_id:
            raise ValueError(f"which volumes are held follows from the columns {', '.join(self.columns)}")
        return (self.low <= id_fraction(volume_id, self.salt) < self.high) != self.outside

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose values say whether a row is held: the id always, and what else the selection goes by."""
        return ("id", *(["label"] if self.strata else []), *self.by, *([self.source] if self.source else []))

    @property
    def share(self) -> float:
        """About which share of all volumes it holds."""
        return 1 - (self.high - self.low) if self.outside else self.high - self.low
