import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { describe, it } from "node:test";
import { InvalidSignature, UsageError, verifySignature } from "../src/index.js";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
const SENT = 1_700_000_000;

function sign(body: string, secret = SECRET): Record<string, string> {
  const key = Buffer.from(secret.slice(6), "base64");
  const mac = createHmac("sha256", key).update(`m1.${SENT}.${body}`).digest("base64");
  return { "Webhook-Id": "m1", "Webhook-Timestamp": String(SENT), "Webhook-Signature": `v1a,x v1,${mac}` };
}

describe("verifySignature", () => {
  const body = '{"a": "ü"}';
  const now = new Date(SENT * 1000);

  it("accepts what the server signed, with any of the secrets and any form of headers", () => {
    verifySignature({ secrets: SECRET, headers: sign(body), body, now });
    verifySignature({ secrets: [OTHER, SECRET], headers: new Headers(sign(body)), body: Buffer.from(body), now });
    verifySignature({ secrets: [OTHER, SECRET], headers: sign(body, OTHER), body, now });
  });

  it("knows the example of Standard Webhooks", () => {
    verifySignature({
      secrets: SECRET,
      headers: {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": ["v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="],
      },
      body: '{"test": 2432232314}',
      now: new Date(1_614_265_330_000),
    });
  });

  it("tolerates five minutes between the clocks, both ways", () => {
    for (const seconds of [-300, 300]) {
      verifySignature({ secrets: SECRET, headers: sign(body), body, now: new Date((SENT + seconds) * 1000) });
    }
    for (const seconds of [-301, 301]) {
      const late = { secrets: SECRET, headers: sign(body), body, now: new Date((SENT + seconds) * 1000) };
      assert.throws(() => verifySignature(late), /webhook-timestamp is 301 s (old|ahead)/);
    }
  });

  it("refuses everything else, and says which part is wrong", () => {
    const wrong: [Record<string, string>, string, RegExp][] = [
      [sign(body), `${body} `, /fits none of the secrets/],
      [sign(body, OTHER), body, /fits none of the secrets/],
      [{}, body, /has no webhook-id/],
      [{ ...sign(body), "Webhook-Timestamp": "soon" }, body, /webhook-timestamp is "soon"/],
      [{ ...sign(body), "Webhook-Signature": "v1," }, body, /fits none/],
    ];
    for (const [headers, text, message] of wrong) {
      assert.throws(
        () => verifySignature({ secrets: SECRET, headers, body: text, now }),
        (error) => {
          return error instanceof InvalidSignature && message.test(error.message);
        },
      );
    }
  });

  it("refuses secrets that are none", () => {
    for (const secrets of [
      [],
      "",
      "whsec_",
      "whsec_short",
      "whsec_*".padEnd(50, "*"),
      "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    ]) {
      assert.throws(() => verifySignature({ secrets, headers: sign(body), body, now }), UsageError);
    }
  });
});
