"""Signatures: the example of the Standard Webhooks specification, and secrets that are none."""

from __future__ import annotations

import pytest

from delay_queue import SignatureError, UsageError, verify

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HEADERS = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
BODY = b'{"test": 2432232314}'


def test_the_example_of_the_specification_verifies() -> None:
    verify(SECRET, HEADERS, BODY, now=1614265330)
    with pytest.raises(SignatureError, match="behind the clock"):
        verify(SECRET, HEADERS, BODY)


@pytest.mark.parametrize("secrets", [[], [""], ["whsec_"], ["MfKQ"], ["whsec_é"], [None]])
def test_a_wrong_secret_is_not_shown(secrets: "list[str]") -> None:
    with pytest.raises(UsageError, match=r"whsec_ and base64|at least one") as caught:
        verify(secrets, HEADERS, BODY, now=1614265330)
    assert "MfKQ" not in str(caught.value)


def test_a_body_that_was_decoded_is_refused() -> None:
    with pytest.raises(UsageError, match="as they arrived"):
        verify(SECRET, HEADERS, BODY.decode(), now=1614265330)  # type: ignore[arg-type]
