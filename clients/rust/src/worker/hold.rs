//! Touches of a reserved job, from its pop until its outcome is acknowledged.

use std::time::Duration;

use reqwest::Method;
use serde::{Serialize, de::IgnoredAny};
use tokio::time::{Instant, sleep_until, timeout};

use super::Shared;
use crate::{Error, job::Reserved, queue::encode, retry::Backoff, transport::segment};

#[derive(Serialize)]
struct Touch<'a> {
    reservation: &'a str,
}

/// A reservation that touches extend. Its times are monotonic: the wall clock may jump.
#[derive(Debug)]
pub(super) struct Hold<'a> {
    shared: &'a Shared,
    reserved: &'a Reserved,
    ends_at: Instant,
    next: Instant,
}

impl<'a> Hold<'a> {
    pub(super) fn new(shared: &'a Shared, reserved: &'a Reserved, popped_at: Instant) -> Self {
        let (ends_at, next) = (popped_at + reserved.ttr, popped_at + reserved.ttr / 3);
        Hold { shared, reserved, ends_at, next }
    }

    /// Touches the job at each third of its TTR. Returns why the reservation is lost.
    pub(super) async fn keep(&mut self) -> String {
        let mut backoff = Backoff::new();
        loop {
            sleep_until(self.next.min(self.ends_at)).await;
            let sent_at = Instant::now();
            if sent_at >= self.ends_at {
                return "no touch succeeded during its TTR".to_owned();
            }
            match timeout(self.ends_at - sent_at, self.touch()).await {
                Ok(Ok(())) => {
                    self.shared.outage.succeeded();
                    backoff = Backoff::new();
                    self.ends_at = sent_at + self.reserved.ttr;
                    self.next = sent_at + self.reserved.ttr / 3;
                }
                Ok(Err(error)) if matches!(error.status(), Some(404 | 409)) => {
                    return error.to_string();
                }
                Ok(Err(error)) => {
                    self.shared.outage.failed(&error);
                    self.next = Instant::now() + backoff.wait(error.retry_after());
                }
                Err(_) => {}
            }
        }
    }

    async fn touch(&self) -> Result<(), Error> {
        let path = format!("/jobs/{}/touch", segment(&self.reserved.id));
        let body = encode(&Touch { reservation: &self.reserved.reservation }, "touch")?;
        let touched = self.shared.queue.call_once::<IgnoredAny>(
            Method::POST,
            &path,
            Some(body),
            Duration::ZERO,
        );
        touched.await.map(|_| ())
    }
}
