//! `[limits]`: limits of requests, memory, connections and jobs, and timeouts of clients.

use serde::{Deserialize, Serialize};

use super::error::{SettingsError, between, refused};
use crate::job::Millis;

/// Settings of `[limits]`.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct Limits {
    pub max_body_bytes: usize,
    pub request_bytes: usize,
    pub memory_bytes: usize,
    pub header_bytes: usize,
    pub header_timeout: Millis,
    pub body_timeout: Millis,
    pub write_timeout: Millis,
    pub idle_timeout: Millis,
    pub connections: usize,
    pub connections_per_address: usize,
    pub requests_in_flight: usize,
    pub waiting_pops: usize,
    pub puts_per_second: Option<u32>,
    pub topic_jobs: Option<u64>,
    pub topic_bytes: Option<u64>,
    pub store_jobs: Option<u64>,
    pub store_bytes: Option<u64>,
}

impl Limits {
    pub(super) fn check(&self) -> Vec<Result<(), SettingsError>> {
        let time = |key, given| between(key, given, Millis::new(1_000), Millis::new(86_400_000));
        vec![
            self.check_max_body_bytes(),
            self.check_request_bytes(),
            self.check_memory_bytes(),
            within("limits.header_bytes", self.header_bytes, 8 << 10, 1 << 20, "bytes"),
            time("limits.header_timeout", self.header_timeout),
            time("limits.body_timeout", self.body_timeout),
            time("limits.write_timeout", self.write_timeout),
            time("limits.idle_timeout", self.idle_timeout),
            count("limits.connections", self.connections),
            count("limits.connections_per_address", self.connections_per_address),
            count("limits.requests_in_flight", self.requests_in_flight),
            count("limits.waiting_pops", self.waiting_pops),
            at_least_one("limits.puts_per_second", self.puts_per_second.map(u64::from)),
            at_least_one("limits.topic_jobs", self.topic_jobs),
            at_least_one("limits.topic_bytes", self.topic_bytes),
            at_least_one("limits.store_jobs", self.store_jobs),
            at_least_one("limits.store_bytes", self.store_bytes),
        ]
    }

    fn check_max_body_bytes(&self) -> Result<(), SettingsError> {
        if (1..=64 << 20).contains(&self.max_body_bytes) {
            return Ok(());
        }
        let allowed = "must be from 1 to 67108864 bytes";
        Err(refused("limits.max_body_bytes", allowed, self.max_body_bytes))
    }

    fn check_request_bytes(&self) -> Result<(), SettingsError> {
        let Limits { max_body_bytes, request_bytes, .. } = *self;
        if (max_body_bytes.saturating_add(4096)..=1 << 30).contains(&request_bytes) {
            return Ok(());
        }
        let allowed = "must be from limits.max_body_bytes + 4096 to 1073741824 bytes";
        Err(refused("limits.request_bytes", allowed, request_bytes))
    }

    fn check_memory_bytes(&self) -> Result<(), SettingsError> {
        let Limits { request_bytes, memory_bytes, .. } = *self;
        if memory_bytes / 4 >= request_bytes {
            return Ok(());
        }
        let allowed = "must be at least four times limits.request_bytes";
        Err(refused("limits.memory_bytes", allowed, memory_bytes))
    }
}

fn count(key: &'static str, given: usize) -> Result<(), SettingsError> {
    within(key, given, 1, 1 << 20, "")
}

fn within(
    key: &'static str,
    given: usize,
    min: usize,
    max: usize,
    unit: &str,
) -> Result<(), SettingsError> {
    match (min..=max).contains(&given) {
        true => Ok(()),
        false => Err(refused(key, format!("must be from {min} to {max} {unit}").trim_end(), given)),
    }
}

fn at_least_one(key: &'static str, given: Option<u64>) -> Result<(), SettingsError> {
    match given {
        Some(0) => Err(refused(key, "must be at least 1, or left out for no limit", 0)),
        _ => Ok(()),
    }
}
