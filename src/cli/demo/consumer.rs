//! The consumers of the demo, which sometimes fail.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    ORDERS, REMINDERS, send,
    shop::{chance, random},
};
use crate::cli::client::{Client, Request};

/// End of an attempt: the route, and the fields in addition to the reservation. `None` is a crash,
/// after which the TTR ends.
type End = Option<(&'static str, Value)>;

/// Closes orders that were not paid in time.
pub async fn close_orders(client: &Client, name: &str) {
    consume(client, ORDERS, name, (100, 700), |job| {
        let order = job["body"]["order"].as_u64().unwrap_or_default();
        if order.is_multiple_of(40) {
            return Some(("release", json!({"error": format!("order {order} has no customer")})));
        }
        match random(1, 100) {
            1..=8 => Some(("release", json!({"error": "payment service: connection refused"}))),
            9 => None,
            _ => Some(("finish", json!({"result": {"closed": order}}))),
        }
    })
    .await;
}

/// Sends reminders. Some customers sleep, and get theirs later.
pub async fn send_reminders(client: &Client) {
    consume(client, REMINDERS, "reminder-1", (50, 400), |_| {
        if chance(0.15) {
            let later =
                json!({"delay": "30s", "count_attempt": false, "error": "the customer sleeps"});
            return Some(("release", later));
        }
        if chance(0.03) {
            return Some(("bury", json!({"error": "the number does not exist"})));
        }
        Some(("finish", json!({})))
    })
    .await;
}

/// Pops the jobs of a topic one by one for ever, works for some milliseconds, and ends the attempt.
async fn consume(
    client: &Client,
    topic: &str,
    name: &str,
    work: (u64, u64),
    end: impl Fn(&Value) -> End,
) {
    const WAIT: Duration = Duration::from_secs(20);
    let path = format!("/topics/{topic}/pop?wait=20s&consumer={name}");
    loop {
        let popped = send(client, || Request::post(&path).wait(WAIT)).await;
        let popped = popped.and_then(|answer| serde_json::from_slice::<Value>(&answer).ok());
        let jobs = popped.map(|mut answer| answer["jobs"].take());
        let Some(job) = jobs.as_ref().and_then(|jobs| jobs.get(0)) else {
            // A pop at the end of the server answers at once.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        sleep(Duration::from_millis(random(work.0, work.1))).await;
        let Some((route, mut fields)) = end(job) else { continue };
        fields["reservation"] = job["reservation"].clone();
        let id = job["id"].as_str().unwrap_or_default();
        let path = format!("/jobs/{id}/{route}");
        send(client, || Request::post(&path).body(fields.to_string())).await;
    }
}
