"""Keeping TensorFlow's server to this machine.

TensorFlow listens on every interface, asks nobody who he is, and has no setting for either. Where all
workers are on one machine, the kernel drops what comes to its port from elsewhere.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import stat
import struct

_ATTACH_FILTER = 26
"""SO_ATTACH_FILTER of asm-generic/socket.h, which the module socket does not name."""

_NET = 0xFFF00000
"""SKF_NET_OFF: offsets from here count from the IP header."""
_BYTE, _WORD, _SHIFT, _EQUAL, _RETURN = 0x30, 0x20, 0x74, 0x15, 0x06

_PROGRAM = (
    # (operation, steps to skip when equal, when not, operand); see Linux' Documentation/networking/filter.rst
    (_BYTE, 0, 0, _NET),
    (_SHIFT, 0, 0, 4),
    (_EQUAL, 0, 2, 4),  # IPv4, also on a socket of both kinds:
    (_BYTE, 0, 0, _NET + 12),
    (_EQUAL, 8, 9, 127),  # from 127.0.0.0/8
    (_WORD, 0, 0, _NET + 8),  # IPv6: from ::1
    (_EQUAL, 0, 7, 0),
    (_WORD, 0, 0, _NET + 12),
    (_EQUAL, 0, 5, 0),
    (_WORD, 0, 0, _NET + 16),
    (_EQUAL, 0, 3, 0),
    (_WORD, 0, 0, _NET + 20),
    (_EQUAL, 0, 1, 1),
    (_RETURN, 0, 0, 0xFFFFFFFF),  # taken
    (_RETURN, 0, 0, 0),  # dropped
)


def is_loopback(address: str) -> bool:
    """Whether `host:port` is this machine's own."""
    host = address.rpartition(":")[0]
    return host == "localhost" or host.startswith("127.")


def only_from_this_machine(port: int) -> bool:
    """Have this process' listening socket on `port` take connections from this machine alone.

    False where the system cannot: no Linux, or no such socket.
    """
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in _PROGRAM))
    program = struct.pack("@HP", len(_PROGRAM), ctypes.addressof(code))
    done = False
    for handle in _sockets():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(handle)) as found:
            listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if listens and found.getsockname()[1] == port:
                found.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)
                done = True
    return done


def _sockets() -> list[int]:
    """This process' open sockets."""
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # the listing's own handle is closed by now
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    found.append(int(name))
    return found
