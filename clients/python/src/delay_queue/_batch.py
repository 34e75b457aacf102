"""The form and the limits of batches."""

from __future__ import annotations

from typing import Iterable, List, Protocol, TypeVar

MOST_JOBS = 1000
#: Bytes of a request that gathers what waits; larger requests would delay the first of its jobs.
GATHERED_BYTES = 1 << 20
#: Bytes of the encoded list around jobs.
FRAME_BYTES = len(b'{"jobs":[]}')


class Encoded(Protocol):
    """A part of a batch, in JSON."""

    content: bytes


T = TypeVar("T", bound=Encoded)


def first_batch(waiting: Iterable[T], most_jobs: int = MOST_JOBS) -> List[T]:
    """Returns the first parts that fit into one request together; a part that is too large is alone."""
    batch: List[T] = []
    size = FRAME_BYTES
    for one in waiting:
        size += len(one.content) + 1
        if batch and (len(batch) == most_jobs or size > GATHERED_BYTES):
            break
        batch.append(one)
    return batch


def batch_content(contents: Iterable[bytes]) -> bytes:
    """Returns the body of a request."""
    return b'{"jobs":[' + b",".join(contents) + b"]}"
