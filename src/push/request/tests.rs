use super::*;
use crate::job::{Hidden, Millis, Nonce, Policy};

const NOW: UnixMillis = UnixMillis::new(1_900_000_000_000);

fn push() -> Push {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Push {
        url: "http://shop.example/".to_owned(),
        concurrency: 1,
        rate: None,
        timeout: 1_000,
        secrets: vec![Hidden::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned())],
        headers: Headers::new(vec![pair("X-Shop", "7"), pair("x-both", "push")]).expect("headers"),
        authorization: Some(Hidden::new("Bearer key".to_owned())),
        batch: None,
        backoff: None,
        secret_headers: std::collections::BTreeMap::new(),
        set_by: None,
        accepted_at: None,
        paused: None,
    }
}

fn job(id: &str, created_at: u64, attempt: u32) -> PoppedJob {
    let pairs = vec![("X-Both".to_owned(), "job".to_owned())];
    let headers = Headers::new(pairs).expect("headers");
    PoppedJob {
        id: id.parse().expect("an id"),
        topic: "orders".parse().expect("a topic"),
        body: Bytes::from_static(b"{\"order\": 7}"),
        attempt,
        due_at: NOW,
        created_at: UnixMillis::new(created_at),
        ttr: Millis::new(1_000),
        reservation: Nonce::new(1 << 20).reservation(0),
        reserved_until: NOW,
        policy: Policy { headers, ..Policy::STANDARD },
    }
}

fn template() -> Template {
    Template::new(&"orders".parse().expect("a topic"), &push())
}

#[test]
fn a_request_has_the_body_and_the_headers_of_the_contract() {
    let Prepared { headers, body } = template().one(&job("order:7", 5, 3), NOW);
    assert_eq!(body, "{\"order\": 7}");
    let text = |name: &str| headers.get(name).map(|value| value.to_str().expect("text"));
    for (name, expected) in [
        ("content-type", "application/json"),
        ("delay-queue-id", "order:7"),
        ("delay-queue-topic", "orders"),
        ("delay-queue-attempt", "3"),
        ("delay-queue-due-at", "2030-03-17T17:46:40.000Z"),
        ("x-shop", "7"),
        ("x-both", "job"),
        ("authorization", "Bearer key"),
        ("webhook-timestamp", "1900000000"),
    ] {
        assert_eq!(text(name), Some(expected), "{name}");
    }
    let (id, signature) = (text("webhook-id"), text("webhook-signature").unwrap_or_default());
    let keys = Keys::new(&push().secrets);
    let expected = keys.signature(id.expect("an id"), 1_900_000_000, &body);
    assert_eq!(Some(signature.to_owned()), expected);
    assert_eq!(text("traceparent"), None);
}

#[test]
fn the_message_id_belongs_to_one_put() {
    let id = |job| template().one(&job, NOW).headers["webhook-id"].clone();
    assert_eq!(id(job("a", 5, 1)), id(job("a", 5, 2)));
    assert_ne!(id(job("a", 5, 1)), id(job("a", 6, 1)));
    assert_ne!(id(job("a", 5, 1)), id(job("b", 5, 1)));
    assert!(id(job("a", 5, 1)).to_str().expect("text").starts_with("msg_"));
}

#[test]
fn a_batch_has_all_jobs() {
    let jobs = [job("a", 5, 1), job("b", 5, 2)];
    let Prepared { headers, body } = template().batch(&jobs, NOW).expect("JSON");
    let item = |id: &str, attempt: u32| {
        format!(
            "{{\"id\":\"{id}\",\"attempt\":{attempt},\"due_at\":\"2030-03-17T17:46:40.000Z\",\
             \"headers\":{{\"X-Both\":\"job\"}},\"body\":{{\"order\": 7}}}}"
        )
    };
    assert_eq!(body, format!("{{\"jobs\":[{},{}]}}", item("a", 1), item("b", 2)));
    assert_eq!(headers["delay-queue-topic"], "orders");
    assert!(!headers.contains_key("delay-queue-id") && headers.contains_key("webhook-signature"));
}
