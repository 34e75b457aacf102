//! Commands of the suite.

use std::{
    str::FromStr,
    time::{Duration, SystemTime},
};

use delay_queue_client::{Error, OnConflict, Put, Queue, State, TopicSettings, webhook::Verifier};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use crate::{
    Driver, bare, fake,
    reply::{Failure, of},
};

impl Driver {
    pub async fn run(&self, command: &Value) -> Result<Value, Failure> {
        match text(command, "do") {
            "verify" => return verify(command),
            "fake" => return fake::run(&command["steps"]).await,
            "open" => {
                self.gates.open(text(command, "gate"));
                return Ok(json!({}));
            }
            "stop" => {
                self.work.stop().await;
                return Ok(json!({}));
            }
            _ => {}
        }
        let queue = self.queue.clone()?;
        match text(command, "do") {
            "put" => Ok(json!(put(&queue, &command["put"])?.await?)),
            "put_many" => put_many(&queue, &command["puts"]).await,
            "get" => match seconds(command, "wait") {
                Some(wait) => Ok(json!(queue.get_and_wait(text(command, "id"), wait).await?)),
                None => Ok(json!(queue.get(text(command, "id")).await?)),
            },
            "cancel" => cancel(&queue, command).await,
            "topic_get" => Ok(json!(queue.topic(text(command, "topic")).await?)),
            "topic_set" => {
                let settings: TopicSettings =
                    serde_json::from_value(in_seconds(&command["settings"]))?;
                Ok(json!(queue.set_topic_settings(text(command, "topic"), &settings).await?))
            }
            "work" => {
                self.work.start(queue, &self.gates, command);
                Ok(json!({}))
            }
            "bare" => {
                bare::run(&self.url, self.token.as_deref(), command).await?;
                Ok(json!({}))
            }
            other => Err(Failure::Usage(format!("there is no command {other:?}"))),
        }
    }
}

fn text<'a>(command: &'a Value, name: &str) -> &'a str {
    command[name].as_str().unwrap_or_default()
}

fn seconds(command: &Value, name: &str) -> Option<Duration> {
    command[name].as_f64().map(Duration::from_secs_f64)
}

/// Returns the put of these fields of the API.
pub fn put(queue: &Queue, fields: &Value) -> Result<Put, Failure> {
    let fields =
        fields.as_object().ok_or_else(|| Failure::Usage("a put is an object".to_owned()))?;
    let mut put = queue.put(
        fields["topic"].as_str().unwrap_or_default(),
        fields.get("body").unwrap_or(&Value::Null),
    );
    for (name, value) in fields {
        let duration =
            value.as_f64().filter(|seconds| *seconds >= 0.0).map(Duration::from_secs_f64);
        put = match (name.as_str(), duration, value.as_str()) {
            ("topic" | "body", ..) => put,
            _ if value.is_null() => put,
            ("id", _, Some(id)) => put.id(id),
            ("delay", Some(delay), _) => put.delay(delay),
            ("ttr", Some(ttr), _) => put.ttr(ttr),
            ("expires_after", Some(after), _) => put.expires_after(after),
            ("finished_retention", Some(retention), _) => put.finished_retention(retention),
            ("on_conflict", _, Some("reject")) => put.on_conflict(OnConflict::Reject),
            ("on_conflict", _, Some("keep")) => put.on_conflict(OnConflict::Keep),
            ("on_conflict", _, Some("replace")) => put.on_conflict(OnConflict::Replace),
            ("traceparent", _, Some(traceparent)) => put.traceparent(traceparent),
            ("headers", ..) => headers(put, value.as_object()),
            _ => put.field(name, value.clone()),
        };
    }
    Ok(put)
}

fn headers(put: Put, headers: Option<&Map<String, Value>>) -> Put {
    let headers = headers.into_iter().flatten();
    headers.fold(put, |put, (name, value)| put.header(name, value.as_str().unwrap_or_default()))
}

async fn put_many(queue: &Queue, puts: &Value) -> Result<Value, Failure> {
    let puts = puts.as_array().into_iter().flatten();
    let puts = puts.map(|fields| put(queue, fields)).collect::<Result<Vec<_>, _>>()?;
    let results = queue.put_many(puts).await;
    let result = |result: &Result<_, Error>| match result {
        Ok(job) => json!({"ok": job}),
        Err(error) => json!({"error": of(error)}),
    };
    Ok(results.iter().map(result).collect())
}

pub async fn cancel(queue: &Queue, command: &Value) -> Result<Value, Failure> {
    let id = text(command, "id");
    let mut cancel = queue.cancel(id);
    if let Some(remember) = seconds(command, "remember") {
        cancel = cancel.remember(remember);
    }
    Ok(match cancel.await? {
        None => Value::Null,
        Some(State::Unknown) => json!({"id": id, "state": null}),
        Some(state) => json!({"id": id, "state": state}),
    })
}

fn verify(command: &Value) -> Result<Value, Failure> {
    let secrets = command["secrets"].as_array().into_iter().flatten();
    let verifier = Verifier::new(secrets.map(|secret| secret.as_str().unwrap_or_default()))?;
    let mut headers = HeaderMap::new();
    for (name, value) in command["headers"].as_object().into_iter().flatten() {
        let name = HeaderName::from_str(name);
        let value = HeaderValue::from_str(value.as_str().unwrap_or_default());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.insert(name, value);
        }
    }
    let now = SystemTime::UNIX_EPOCH + seconds(command, "now").unwrap_or_default();
    let verified = verifier.verify_at(now, &headers, text(command, "body").as_bytes());
    verified.map(|()| json!(true)).map_err(Failure::Signature)
}

/// Replaces the durations with a unit in settings of a topic by seconds, which this crate's types
/// take.
fn in_seconds(settings: &Value) -> Value {
    match settings {
        Value::Object(object) => object
            .iter()
            .map(|(name, value)| match name.as_str() {
                "dead_to" => (name.clone(), value.clone()),
                _ => (name.clone(), in_seconds(value)),
            })
            .collect(),
        Value::Array(list) => list.iter().map(in_seconds).collect(),
        Value::String(text) => {
            let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)];
            let of = |(unit, seconds): &(&str, f64)| {
                text.strip_suffix(unit)?.parse::<f64>().ok().map(|number| json!(number * seconds))
            };
            units.iter().find_map(of).unwrap_or_else(|| settings.clone())
        }
        other => other.clone(),
    }
}
