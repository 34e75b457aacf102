//! A popped job, as its command gets it.

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    cli::client::failure::Failure,
    job::{Headers, Millis, Nonce, Policy, PoppedJob, TraceParent, UnixMillis},
};

/// A popped job.
#[derive(Debug, Deserialize)]
pub struct Job {
    pub id: String,
    pub reservation: String,
    /// Time that the job is held, in seconds.
    pub ttr: f64,
    pub attempt: u64,
    topic: String,
    body: Box<RawValue>,
    max_attempts: Option<u64>,
    due_at: String,
    created_at: String,
    scheduled_at: Option<String>,
    traceparent: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

impl Job {
    pub fn read(json: &RawValue) -> Result<Self, Failure> {
        serde_json::from_str(json.get())
            .map_err(|cause| Failure::Unreachable(format!("failed to read a popped job: {cause}")))
    }

    /// Returns the time between two touches.
    pub fn touch_interval(&self) -> Duration {
        Duration::try_from_secs_f64(self.ttr / 3.0).unwrap_or(Duration::from_secs(1))
    }

    /// Returns the job as a push has it.
    ///
    /// # Errors
    /// A field of the answer has a form that this version does not know.
    pub fn as_popped(&self) -> Result<PoppedJob, String> {
        let time = |text: &str| UnixMillis::from_query(text).map_err(|error| error.to_string());
        let headers = Headers::new(self.headers.clone().into_iter().collect());
        let traceparent = self.traceparent.as_deref().map(str::parse::<TraceParent>).transpose();
        Ok(PoppedJob {
            id: self.id.parse().map_err(|error| format!("id: {error}"))?,
            topic: self.topic.parse().map_err(|error| format!("topic: {error}"))?,
            body: self.body.get().to_owned().into(),
            attempt: u32::try_from(self.attempt).map_err(|error| error.to_string())?,
            due_at: time(&self.due_at)?,
            created_at: time(&self.created_at)?,
            ttr: Millis::ZERO,
            // A request shows neither: the worker itself ends the attempt.
            reservation: Nonce::new(0).reservation(0),
            reserved_until: time(&self.due_at)?,
            policy: Policy {
                headers: headers.map_err(|error| error.to_string())?,
                scheduled_at: self.scheduled_at.as_deref().map(time).transpose()?,
                traceparent: traceparent.map_err(|error| error.to_string())?,
                ..Policy::STANDARD
            },
        })
    }

    /// Returns the standard input of the command. With `raw`, a body that is text has no quotes.
    pub fn input(&self, raw: bool) -> String {
        let text = raw.then(|| serde_json::from_str::<String>(self.body.get()).ok()).flatten();
        text.unwrap_or_else(|| self.body.get().to_owned()) + "\n"
    }

    /// Returns the variables of the command. The server ignores exactly these names.
    pub fn variables(&self) -> Vec<(String, String)> {
        let mut variables = vec![
            ("ID".to_owned(), self.id.clone()),
            ("TOPIC".to_owned(), self.topic.clone()),
            ("ATTEMPT".to_owned(), self.attempt.to_string()),
            ("DUE_AT".to_owned(), self.due_at.clone()),
            ("RESERVATION".to_owned(), self.reservation.clone()),
        ];
        if let Some(most) = self.max_attempts {
            variables.push(("MAX_ATTEMPTS".to_owned(), most.to_string()));
        }
        if let Some(traceparent) = &self.traceparent {
            variables.push(("TRACEPARENT".to_owned(), traceparent.clone()));
        }
        variables.extend(self.headers.iter().map(|(name, value)| {
            let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
            (format!("HEADER_{}", name.to_uppercase()), value.clone())
        }));
        let with_prefix = |(name, value)| (format!("DELAY_QUEUE_JOB_{name}"), value);
        variables.into_iter().map(with_prefix).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_gets_the_body_and_the_fields_of_its_job() {
        let json = r#"{"id":"a","topic":"t","body":"x \"y\"","attempt":2,"max_attempts":null,
            "due_at":"2026-01-01T00:00:00.000Z","created_at":"2026-01-01T00:00:00.000Z","ttr":3,"reservation":"r","reserved_until":"",
            "headers":{"X-Tenant":"7"}}"#;
        let job = Job::read(&RawValue::from_string(json.to_owned()).expect("JSON")).expect("a job");
        assert_eq!(
            (job.input(false), job.input(true)),
            ("\"x \\\"y\\\"\"\n".into(), "x \"y\"\n".into())
        );
        assert_eq!(job.touch_interval(), Duration::from_secs(1));
        let variables = job.variables();
        let value = |name: &str| {
            variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
        };
        assert_eq!(value("DELAY_QUEUE_JOB_HEADER_X_TENANT"), Some("7"));
        assert_eq!(value("DELAY_QUEUE_JOB_ATTEMPT"), Some("2"));
        assert_eq!(value("DELAY_QUEUE_JOB_MAX_ATTEMPTS"), None);
    }
}
