"""Verification of pushes, which are signed as Standard Webhooks describes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from typing import Mapping, Optional, Sequence, Union

from .errors import SignatureError, UsageError

#: Seconds by which the time of a push may differ from the clock.
TOLERANCE = 300
PREFIX = "whsec_"


def verify(
    secrets: Union[str, Sequence[str]], headers: Mapping[str, str], body: bytes, *, now: Optional[float] = None
) -> None:
    """Checks that a push was signed with one of the secrets, at most five minutes ago.

    ``body`` has the bytes as they arrived; ``now`` is in Unix seconds. Raises SignatureError, and UsageError for
    secrets that are none.
    """
    keys = [decoded(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
    if not keys:
        raise UsageError("secrets must have at least one secret, which starts with whsec_")
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise UsageError(f"body must be the bytes of the request as they arrived; got {type(body).__name__}")
    given = {name.lower(): value for name, value in headers.items()}
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        if not given.get(name):
            raise SignatureError(f"the header {name} is missing")
    id, timestamp = given["webhook-id"], given["webhook-timestamp"]
    check_time(timestamp, time.time() if now is None else now)
    text = f"{id}.{timestamp}.".encode() + body
    expected = [b"v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()) for key in keys]
    signatures = [part.encode(errors="replace") for part in given["webhook-signature"].split()]
    # Compares all pairs, so that the time does not depend on the position of a match.
    matches = [hmac.compare_digest(one, other) for one in expected for other in signatures]
    if not any(matches):
        raise SignatureError("no signature in the header webhook-signature matches the body with a given secret")


def check_time(timestamp: str, now: float) -> None:
    """Checks the header webhook-timestamp against the clock."""
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 16):
        raise SignatureError(f"the header webhook-timestamp must be Unix seconds; got {timestamp[:40]!r}")
    difference = now - int(timestamp)
    if abs(difference) > TOLERANCE:
        side = "behind" if difference > 0 else "ahead of"
        raise SignatureError(
            f"the header webhook-timestamp is {abs(difference):.0f} s {side} the clock; {TOLERANCE} s are allowed"
        )


def decoded(secret: str) -> bytes:
    """Returns the key of a secret. Raises UsageError, which does not show it."""
    try:
        if not secret.startswith(PREFIX):
            raise ValueError
        key = base64.b64decode(secret[len(PREFIX) :], validate=True)
    except (ValueError, binascii.Error, AttributeError):
        key = b""
    if not key:
        raise UsageError("a secret must be whsec_ and base64, as PUT /topics/{topic}/push got it")
    return key
