"""What decompresses a DICOM file: one decoder for a kind of compression, always the same, and named in the table.

pydicom would try one after the other, for each frame anew, and decoders of lossy images differ by some levels.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine.extras import missing, require
from nodes.conversion.quarantine import Refused

_PROJECTS = {"pydicom": "pydicom", "gdcm": "python-gdcm", "pylibjpeg": "pylibjpeg-openjpeg", "pillow": "pillow"}
"""What pydicom calls a decoder, and the project whose version decides what comes out; the best one first."""
_MODULES = {"gdcm": ("gdcm",), "pylibjpeg": ("pylibjpeg", "openjpeg")}
"""Those that the extra brings, and what `import` calls them."""
_EXTENDED = "1.2.840.10008.1.2.4.51"
"""JPEG with losses of up to 12 bits, of which 8 can be read."""


def decoder_of(path: Path, header: Any) -> str:
    """What pydicom calls the decoder of the file with this header, "" for a file that is not compressed.

    Raises `MissingPackage` when none is installed that could read it, `Refused` when there is none.
    """
    syntax = header.file_meta.get("TransferSyntaxUID")
    if syntax is None or not syntax.is_transfer_syntax or not syntax.is_compressed:
        return ""
    from pydicom.pixels.decoders.base import get_decoder

    if str(syntax) == _EXTENDED and int(header.get("BitsStored") or 8) > 8:
        raise Refused(
            "format", "is compressed as JPEG of 12 bits with losses, which is not read; store it as JPEG 2000"
        )
    try:
        decoder = get_decoder(syntax)
    except NotImplementedError:
        raise Refused("format", f"is compressed as {syntax.name}, which is not read") from None
    for name in _PROJECTS:
        if name in decoder.available_plugins:
            return name
    said = "\n".join(decoder.missing_dependencies)
    for name, modules in _MODULES.items():
        if name in said and missing(modules):
            require(f"{path.name} is compressed as {syntax.name}: reading it", *modules)
    raise Refused("format", f"is compressed as {syntax.name}, which is not read")


def packages_of(decoders: Iterable[str]) -> list[str]:
    """The packages that read a series whose files these decode: pydicom first."""
    return ["pydicom", *sorted({_PROJECTS[name] for name in decoders if name} - {"pydicom"})]
