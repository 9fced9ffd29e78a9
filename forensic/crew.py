"""A crew: child processes that share work and hand back results as they come.

Plain forks and pipes: a pool of the standard library takes longer to start than most of this work to do.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

__all__ = ["crew", "helped", "shared"]

_CHUNK: Final = 1 << 18
_HEAD: Final = 8
_BATCH: Final = 1 << 16
"""Bytes of results that go together: each time the parent wakes it takes the place of one who works."""


def shared(sizes: Sequence[int], jobs: int) -> list[list[int]]:
    """The positions of all sizes in as many lists as there are jobs, about as much in each."""
    shares: list[list[int]] = [[] for _ in range(jobs)]
    loads = [0] * jobs
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        least = loads.index(min(loads))
        shares[least].append(number)
        loads[least] += sizes[number] + 1
    return shares


@contextlib.contextmanager
def crew(shares: Sequence[Sequence[int]], work: Callable[[int], Any]) -> Iterator[Iterator[tuple[int, bytes]]]:
    """One child for each share; (number, result in msgpack) of everything that they get done, in no order.

    A child that dies takes only what it has not handed back; on the way out all of them are gone. Raises `OSError` when
    one cannot be made.
    """
    readers: dict[int, int] = {}
    try:
        for share in shares:
            reader, child = _hire(share, work)
            readers[reader] = child
        yield _results(readers)
    finally:
        for reader, child in readers.items():
            os.close(reader)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


@contextlib.contextmanager
def helped(shares: Sequence[Sequence[int]], work: Callable[[int], Any]) -> Iterator[Iterator[tuple[int, bytes]]]:
    """The same for who does by himself what nobody did: where not all children can be made there are no results."""
    with contextlib.ExitStack() as stack:
        results: Iterator[tuple[int, bytes]] = iter(())
        with contextlib.suppress(OSError):
            results = stack.enter_context(crew(shares, work))
        yield results


def _hire(share: Sequence[int], work: Callable[[int], Any]) -> tuple[int, int]:
    """A child at work: the end of a pipe at which its results come, and its process id."""
    reader, writer = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        raise
    if child == 0:
        os.close(reader)
        _labour(share, work, writer)
    os.close(writer)
    return reader, child


def _labour(share: Sequence[int], work: Callable[[int], Any], writer: int) -> None:
    """A child's life; it ends here, whatever happens, and never returns into its parent's code."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # a short life that makes no circles: the collector would only look for some
        gc.disable()
        encode = msgspec.msgpack.Encoder().encode
        with os.fdopen(writer, "wb", buffering=_BATCH) as out:
            for number in share:
                result = encode(work(number))
                out.write(len(result).to_bytes(4, "big") + number.to_bytes(4, "big"))
                out.write(result)
    except BaseException:  # noqa: BLE001 -- the parent does what is missing, and meets the same trouble in the open
        os._exit(1)
    os._exit(0)


def _results(readers: dict[int, int]) -> Iterator[tuple[int, bytes]]:
    held = {reader: bytearray() for reader in readers}
    with selectors.DefaultSelector() as waiting:
        for reader in readers:
            waiting.register(reader, selectors.EVENT_READ)
        while waiting.get_map():
            for key, _ in waiting.select():
                reader = key.fd
                data = os.read(reader, _CHUNK)
                if not data:
                    waiting.unregister(reader)
                    continue
                held[reader] += data
                yield from _whole(held[reader])


def _whole(held: bytearray) -> Iterator[tuple[int, bytes]]:
    """Take all whole results off the front."""
    at = 0
    while len(held) - at >= _HEAD:
        size = int.from_bytes(held[at : at + 4], "big")
        if len(held) - at - _HEAD < size:
            break
        number = int.from_bytes(held[at + 4 : at + _HEAD], "big")
        yield number, bytes(held[at + _HEAD : at + _HEAD + size])
        at += _HEAD + size
    del held[:at]
