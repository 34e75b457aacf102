//! The producers of the demo: customers order and pay, and the shop plans reminders.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{ORDERS, REMINDERS, WEBHOOKS, send};
use crate::cli::client::{Client, Request};

/// Number of the first order.
const FIRST: u64 = 1_000;
/// Reminders that are planned at the start, so that the dashboard shows what falls due next.
const PLANNED: u64 = 90;

/// Puts a job for each order, which closes it unless it is paid in time. Most are paid.
pub async fn sell(client: &Client) {
    for order in FIRST.. {
        let id = format!("close:{order}");
        // The first ones are due at once, so that the dashboard moves from the start.
        let seconds = if order < FIRST + 20 { (order - FIRST) / 2 } else { random(10, 40) };
        let body = json!({"order": order, "total": random(900, 20_000)});
        let job = json!({
            "topic": ORDERS, "id": id, "delay": seconds, "body": body,
            "headers": {"tenant": format!("shop-{}", order % 3)},
        });
        put(client, job).await;
        notify(client, "order.created", order).await;
        if order > FIRST + 30 && chance(0.4) {
            let paid = order - random(1, 10);
            let path = format!("/jobs/close:{paid}?state=delayed,ready&remember=5m");
            if send(client, || Request::new(Method::DELETE, &path)).await.is_some() {
                notify(client, "order.paid", paid).await;
            }
        }
        sleep(Duration::from_millis(random(300, 1_500))).await;
    }
}

/// Puts a job that the server pushes to the endpoint.
async fn notify(client: &Client, event: &str, order: u64) {
    let body = json!({"type": event, "order": order});
    put(client, json!({"topic": WEBHOOKS, "body": body})).await;
}

/// Puts reminders of the next minutes.
pub async fn remind(client: &Client) {
    for number in 0.. {
        let delay = if number < PLANNED { random(5, 600) } else { random(120, 600) };
        let body = json!({"customer": random(1, 500), "text": "Your parcel arrives in 15 minutes"});
        let priority = if chance(0.1) { 8 } else { 4 };
        put(
            client,
            json!({
                "topic": REMINDERS, "id": format!("remind:{number}"), "delay": delay, "body": body,
                "priority": priority, "expires_after": "10m",
            }),
        )
        .await;
        if number >= PLANNED {
            sleep(Duration::from_millis(random(2_000, 6_000))).await;
        }
    }
}

async fn put(client: &Client, job: Value) {
    send(client, || Request::post("/jobs").body(job.to_string())).await;
}

/// Returns a number from `from` to `to`.
pub fn random(from: u64, to: u64) -> u64 {
    rand::random_range(from..=to)
}

/// Returns true with this probability.
pub fn chance(of: f64) -> bool {
    rand::random::<f64>() < of
}
