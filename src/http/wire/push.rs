//! The request that sets the push of a topic.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::IgnoredAny};

use super::{
    json::object,
    push_fields::{AUTHORIZATION, Count, GivenHeaders, MASK, Secrets},
};
use crate::{
    http::{
        problem::Problem,
        schema::{push, types},
    },
    job::{
        Backoff, Headers, Hidden, MAX_PUSH_LINGER, MAX_PUSH_TIMEOUT, MAX_PUSH_URL_BYTES,
        MIN_PUSH_TIMEOUT, Millis, Push, PushBatch, Rate, Topic,
    },
};

const CONCURRENCY: u16 = 16;
const TIMEOUT: Millis = Millis::new(15_000);
const BATCH: u16 = 100;
const LINGER: Millis = Millis::new(200);

/// The push of a topic. Also takes the read-only fields of a GET, so that a client can edit an
/// answer and send it back.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "some fields are only accepted, not read")]
pub struct PutPush {
    /// URL to which the jobs are sent, `http` or `https`, without a user or password. A literal
    /// address must be one that the server may connect to.
    #[schemars(with = "push::Url")]
    url: Option<String>,
    /// Maximum number of requests at once, of all servers together, 1 to 1,000. Default: 16.
    concurrency: Option<Count>,
    /// Maximum number of requests in a second, minute or hour, of all servers together: `100/s`,
    /// `30/m`, `500/h`. Default: no limit.
    rate: Option<Rate>,
    /// Time for one request, from the connection to the end of the answer, 1 s to 5 min. Default:
    /// 15 s.
    #[schemars(with = "Option<push::Timeout>")]
    timeout: Option<Millis>,
    /// Up to 5 keys of the signatures, the newest first: `whsec_` and the base64 of 24 to 64 bytes.
    /// Without this field, the stored ones stay; an empty list removes them.
    secrets: Option<Secrets>,
    /// Headers of each request, as in a put of a job; those of the job override them. A secret
    /// value is `{"secret": "…"}`; that of `authorization` is always secret. `***` keeps the stored
    /// value. Default: none.
    headers: Option<GivenHeaders>,
    /// How jobs are collected into one request. Default: each job has a request of its own.
    #[serde(default, deserialize_with = "object")]
    batch: Option<PutBatch>,
    /// Time before the next attempt after a failure that counts, for jobs without a `backoff` of
    /// their own. Default: 5 s, 5 min, 30 min, then hours, up to a day.
    backoff: Option<Backoff>,
    /// The topic of the path.
    topic: Option<Topic>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    secret_count: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    state: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    reason: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored: the push belongs to the token of this request.
    #[schemars(with = "Option<types::Anything>")]
    set_by: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    in_flight: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    rates: Option<IgnoredAny>,
    /// As in the answer to a GET; ignored.
    #[schemars(with = "Option<types::Anything>")]
    last_failures: Option<IgnoredAny>,
}

/// How jobs are collected into one request, which is sent as soon as it has `max` jobs, its first
/// job has waited for `linger`, or it has 4 MiB.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
struct PutBatch {
    /// Maximum number of jobs of a request, 1 to 1,000. Default: 100.
    max: Option<Count>,
    /// How long the first job of a request waits for more jobs, up to 10 s. Default: 200 ms.
    #[schemars(with = "Option<push::Linger>")]
    linger: Option<Millis>,
}

/// A valid push, without the parts that the stored one may contribute.
pub struct NewPush {
    push: Push,
    /// `None` keeps the stored ones.
    secrets: Option<Vec<Hidden>>,
    /// Secret headers by name; the mask keeps the stored value.
    secret_headers: BTreeMap<String, Hidden>,
}

impl PutPush {
    /// Checks the push for the topic of the path. `check_url` returns a message that completes
    /// "`url` …".
    pub fn valid(
        self,
        topic: &Topic,
        check_url: impl FnOnce(&str) -> Result<(), String>,
    ) -> Result<NewPush, Problem> {
        if self.topic.as_ref().is_some_and(|given| given != topic) {
            let detail = format!("must be the topic of the path, {topic:?}");
            return Err(Problem::field("topic", detail));
        }
        let url = self.url.ok_or_else(|| Problem::field("url", "is missing"))?;
        if url.len() > MAX_PUSH_URL_BYTES {
            let given = url.len();
            let detail = format!("must have at most {MAX_PUSH_URL_BYTES} bytes, got {given}");
            return Err(Problem::field("url", detail));
        }
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            let detail = "must be visible ASCII; percent-encode other characters";
            return Err(Problem::field("url", detail));
        }
        check_url(&url).map_err(|detail| Problem::field("url", detail))?;
        let timeout = self.timeout.unwrap_or(TIMEOUT);
        if !(MIN_PUSH_TIMEOUT..=MAX_PUSH_TIMEOUT).contains(&timeout) {
            let given = timeout.as_seconds();
            let detail = format!("must be from 1 second to 5 minutes, got {given} s");
            return Err(Problem::field("timeout", detail));
        }
        let batch = self.batch.map(PutBatch::valid).transpose();
        let batch = batch.map_err(|problem| problem.within("batch"))?;
        let (headers, secret_headers) = match self.headers {
            None => (Headers::NONE, BTreeMap::new()),
            Some(GivenHeaders { others, secret }) => (others, secret),
        };
        let push = Push {
            url,
            concurrency: self.concurrency.map_or(CONCURRENCY, |count| count.0),
            rate: self.rate,
            timeout: timeout.get(),
            secrets: Vec::new(),
            headers,
            authorization: None,
            batch,
            backoff: self.backoff,
            secret_headers: BTreeMap::new(),
            set_by: None,
            accepted_at: None,
            paused: None,
        };
        Ok(NewPush { push, secrets: self.secrets.map(|secrets| secrets.0), secret_headers })
    }
}

impl PutBatch {
    fn valid(self) -> Result<PushBatch, Problem> {
        let linger = self.linger.unwrap_or(LINGER);
        if linger > MAX_PUSH_LINGER {
            let given = linger.as_seconds();
            return Err(Problem::field(
                "linger",
                format!("must be at most 10 seconds, got {given} s"),
            ));
        }
        Ok(PushBatch { max: self.max.map_or(BATCH, |max| max.0), linger: linger.get() })
    }
}

impl NewPush {
    /// Returns the push that replaces the stored one, set by this token. A pause stays: only a
    /// resume ends it.
    ///
    /// # Errors
    /// 422 `invalid_field`: there is no stored value of a secret header to keep.
    pub fn replacing(&self, old: Option<&Push>, set_by: Option<String>) -> Result<Push, Problem> {
        let stored = |name: &str| {
            let old = old?;
            let is_authorization = name == AUTHORIZATION;
            let value = old.authorization.as_ref().filter(|_| is_authorization);
            value.or_else(|| old.secret_headers.get(name)).cloned()
        };
        let mut secret = BTreeMap::new();
        for (name, value) in &self.secret_headers {
            let kept = || {
                stored(name).ok_or_else(|| {
                    let detail = "must be a value: there is no stored value for \"***\" to keep";
                    Problem::field(format!("headers.{name}"), detail)
                })
            };
            let is_mask = value.reveal() == MASK;
            secret.insert(name.clone(), if is_mask { kept()? } else { value.clone() });
        }
        // As a GET shows a secret header.
        let mut plain = Vec::new();
        for (name, value) in self.push.headers.iter() {
            let lower = name.to_ascii_lowercase();
            match stored(&lower).filter(|_| value == MASK) {
                Some(kept) => drop(secret.insert(lower, kept)),
                None => plain.push((name.to_owned(), value.to_owned())),
            }
        }
        let headers = Headers::new(plain);
        let headers = headers.map_err(|error| Problem::field("headers", error.to_string()))?;
        let secrets = || old.map(|old| old.secrets.clone()).unwrap_or_default();
        Ok(Push {
            secrets: self.secrets.clone().unwrap_or_else(secrets),
            headers,
            authorization: secret.remove(AUTHORIZATION),
            secret_headers: secret,
            set_by,
            paused: old.and_then(|old| old.paused),
            ..self.push.clone()
        })
    }

    /// Describes the push for the audit: without secrets, and without the URL's query, which may
    /// contain one.
    pub fn audited(&self) -> String {
        #[derive(Serialize)]
        struct Audited<'a> {
            url: String,
            concurrency: u16,
            rate: Option<Rate>,
            timeout: Millis,
            batch: Option<PushBatch>,
            backoff: &'a Option<Backoff>,
            secrets: String,
            authorization: &'static str,
        }

        let Push { url, concurrency, rate, batch, backoff, .. } = &self.push;
        let audited = Audited {
            url: without_query(url),
            concurrency: *concurrency,
            rate: *rate,
            timeout: self.push.timeout(),
            batch: *batch,
            backoff,
            secrets: match &self.secrets {
                None => "kept".to_owned(),
                Some(none) if none.is_empty() => "removed".to_owned(),
                Some(some) => some.len().to_string(),
            },
            authorization: match self.secret_headers.get(AUTHORIZATION) {
                None => "none",
                Some(value) if value.reveal() == MASK => "kept",
                Some(_) => "set",
            },
        };
        format!("push set to {}", serde_json::to_string(&audited).unwrap_or_default())
    }
}

fn without_query(url: &str) -> String {
    match url.split_once(['?', '#']) {
        Some((before, _)) => format!("{before}?…"),
        None => url.to_owned(),
    }
}
