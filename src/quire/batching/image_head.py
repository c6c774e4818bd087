"""Reads the size of a JPEG or PNG from its first bytes, without decoding it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

HEAD_BYTES = 256 << 10
"""How much `read_image_head` needs: photographs may have a preview and a colour profile before their size."""

_PNG = b"\x89PNG\r\n\x1a\n"
_START_OF_FRAME = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})
_WITHOUT_LENGTH = frozenset({0x01, 0xD8, *range(0xD0, 0xD8)})
_START_OF_SCAN = 0xDA
_END_OF_IMAGE = 0xD9


@dataclass(frozen=True, slots=True)
class ImageHead:
    kind: str  # "jpeg" or "png"
    width: int
    height: int

    @property
    def pixels(self) -> int:
        return self.width * self.height


def read_image_head(head: bytes | bytearray) -> ImageHead | None:
    """Returns the image's type and size; None if it is neither JPEG nor PNG, or its size is not in these bytes."""
    if head.startswith(_PNG):
        return _png(head)
    if head.startswith(b"\xff\xd8\xff"):
        return _jpeg(head)
    return None


def _png(head: bytes | bytearray) -> ImageHead | None:
    if len(head) < 33 or head[8:16] != b"\x00\x00\x00\x0dIHDR":
        return None
    width, height = struct.unpack_from(">II", head, 16)
    return ImageHead("png", width, height) if 0 < width < 1 << 31 and 0 < height < 1 << 31 else None


def _jpeg(head: bytes | bytearray) -> ImageHead | None:
    at = 2
    while at + 4 <= len(head):
        if head[at] != 0xFF:
            return None
        marker = head[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
        elif marker in _WITHOUT_LENGTH:
            at += 2
        elif marker in (_START_OF_SCAN, _END_OF_IMAGE):
            return None
        elif marker in _START_OF_FRAME:
            if at + 9 > len(head):
                return None
            height, width = struct.unpack_from(">HH", head, at + 5)
            return ImageHead("jpeg", width, height) if width and height else None
        else:
            (length,) = struct.unpack_from(">H", head, at + 2)
            if length < 2:
                return None
            at += 2 + length
    return None
