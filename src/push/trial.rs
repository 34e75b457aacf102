//! Test requests of pushes.

use std::time::Instant;

use bytes::Bytes;
use guarded_client::{Answer, Client, Limits, TargetUrl};
use http::HeaderMap;

use super::{
    request::{Prepared, Template},
    status::{TestAnswer, Tested},
    verdict::{Judged, answer_bytes, quote},
};
use crate::{
    job::{JobId, Millis, Nonce, Policy, PoppedJob, Push, Topic},
    store::Clock,
};

/// Id of the job of a test request.
const TEST_ID: &str = "test";

/// Sends a request with a made-up job.
pub async fn send(client: &Client, topic: &Topic, push: &Push) -> Tested {
    let now = Clock::Own.now().floor;
    let job = PoppedJob {
        id: TEST_ID.parse().expect("a valid id"),
        topic: topic.clone(),
        body: Bytes::from_static(br#"{"test":true}"#),
        attempt: 1,
        due_at: now,
        created_at: now,
        ttr: Millis::ZERO,
        reservation: Nonce::new(0).reservation(0),
        reserved_until: now,
        policy: Policy::STANDARD,
    };
    let template = Template::new(topic, push);
    let prepared = match push.batch {
        None => Ok(template.one(&job, now)),
        Some(_) => template.batch(&[job], now),
    };
    let Prepared { headers, body } = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            let (headers, body) = (Vec::new(), String::new());
            return Tested { headers, body, answer: Err(error.to_string()) };
        }
    };
    let shown = headers.iter().map(|(name, value)| {
        let text = if value.is_sensitive() {
            "***".into()
        } else {
            String::from_utf8_lossy(value.as_bytes())
        };
        (name.as_str().to_owned(), text.into_owned())
    });
    let (shown, text) = (shown.collect(), String::from_utf8_lossy(&body).into_owned());
    Tested { headers: shown, body: text, answer: ask(client, push, headers, body).await }
}

async fn ask(
    client: &Client,
    push: &Push,
    headers: HeaderMap,
    body: Bytes,
) -> Result<TestAnswer, String> {
    let url = TargetUrl::parse(&push.url).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let limits = Limits {
        timeout: push.timeout().into(),
        answer_bytes: answer_bytes(push.batch.map(|_| 1)),
    };
    let answer = client.post(&url, headers, body, limits).await;
    let answer = answer.map_err(|failure| failure.to_string())?;
    let seconds = began.elapsed().as_secs_f64();
    let (status, body) = (answer.status, quote(&answer));
    let warning = push.batch.filter(|_| status.is_success()).and_then(|_| warning(answer));
    Ok(TestAnswer { status: status.as_u16(), body, seconds, warning })
}

/// Returns a warning if a successful answer to a batch does not accept its job.
fn warning(answer: Answer) -> Option<String> {
    let id: JobId = TEST_ID.parse().expect("a valid id");
    let judged = Judged::of_batch(Ok(answer), &[&id], Clock::Own.now().floor);
    let (_, error) = judged.failure()?;
    Some(format!(
        "the endpoint did not accept the job: {error}. Answer with `results`, or with a body that is not JSON"
    ))
}
