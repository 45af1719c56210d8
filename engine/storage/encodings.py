"""What to say of a table that should be text in UTF-8 and is not: as spreadsheets save it, or no text at all."""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE

LOOKED_AT = 4
"""How many of its first bytes say what a file is."""
SAVE_AS_UTF_8 = 'Save it as UTF-8: in Excel as "CSV UTF-8", in LibreOffice with the character set Unicode (UTF-8).'
_ZIP = b"PK\x03\x04"


def no_utf_8(start: bytes) -> str:
    """`not text in UTF-8, but in UTF-16`: what a file that begins with these bytes most likely is."""
    if start.startswith(_ZIP):
        return "not text in UTF-8, but an Excel workbook or another ZIP archive"
    if start.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "not text in UTF-8, but in UTF-16"
    return "not text in UTF-8, but perhaps in Latin-1 or Windows-1252"
