//! Signatures of pushes.

use std::time::{Duration, SystemTime};

use delay_queue_client::webhook::{SignatureError, Verifier};
use http::HeaderMap;

// The example of the specification of Standard Webhooks.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BODY: &[u8] = br#"{"test": 2432232314}"#;
const SENT: u64 = 1_614_265_330;

fn headers(signature: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek".parse().unwrap());
    headers.insert("webhook-timestamp", SENT.to_string().parse().unwrap());
    headers.insert("webhook-signature", signature.parse().unwrap());
    headers
}

fn verify(now: u64, signature: &str, body: &[u8]) -> Result<(), SignatureError> {
    let secrets = ["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", SECRET];
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
    Verifier::new(secrets).unwrap().verify_at(now, &headers(signature), body)
}

const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

#[test]
fn one_of_several_signatures_and_secrets_must_match() {
    assert_eq!(verify(SENT, SIGNATURE, BODY), Ok(()));
    assert_eq!(verify(SENT, &format!("v1,AAAA v1a,BBBB {SIGNATURE}"), BODY), Ok(()));
    assert_eq!(verify(SENT, "v1,AAAA", BODY), Err(SignatureError::Signature));
    assert_eq!(verify(SENT, &SIGNATURE.replace("v1", "v2"), BODY), Err(SignatureError::Signature));
    assert_eq!(verify(SENT, SIGNATURE, b"{}"), Err(SignatureError::Signature));
}

#[test]
fn a_request_is_valid_for_five_minutes_in_both_directions() {
    for now in [SENT - 300, SENT + 300] {
        assert_eq!(verify(now, SIGNATURE, BODY), Ok(()));
    }
    for now in [SENT - 301, SENT + 301] {
        assert_eq!(verify(now, SIGNATURE, BODY), Err(SignatureError::Time(1_614_265_330)));
    }
}

#[test]
fn a_missing_header_is_named() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(SENT);
    let verifier = Verifier::new([SECRET]).unwrap();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let mut headers = headers(SIGNATURE);
        headers.remove(name);
        assert_eq!(verifier.verify_at(now, &headers, BODY), Err(SignatureError::Header(name)));
    }
}

#[test]
fn a_wrong_secret_is_refused_without_showing_it() {
    for secrets in [vec![], vec!["whsec_"], vec![SECRET, "hunter2"], vec!["whsec_hunter2!"]] {
        let error = Verifier::new(&secrets).unwrap_err().to_string();
        assert!(error.starts_with("secrets: ") && !error.contains("hunter2"), "{error}");
    }
}
