//! `work --post`: delivers jobs to an endpoint with the requests of a push, to develop webhooks.

use std::{
    cell::Cell,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Args;
use guarded_client::{Allowed, Answer, Limits, TargetUrl};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{Worker, attempt::Fields, job::Job};
use crate::{
    cli::client::{
        at::duration,
        failure::{Failure, complain},
        http::Request,
        put::read,
        show::{Form, print},
    },
    job::{Headers, Hidden, Millis, Push, Topic, decode_secret},
    push::{
        request::Template,
        verdict::{Judged, Verdict, answer_bytes, default_backoff},
    },
    store::Clock,
};

/// Delays after answers that ask for a later try without naming a time: as those of a push.
const FIRST_DELAY: Millis = Millis::new(5_000);
const LONGEST_DELAY: Millis = Millis::new(300_000);
/// Secrets of a push at most.
const MAX_SECRETS: usize = 5;

/// Options of a delivery to an endpoint.
#[derive(Debug, Args)]
#[group(skip)]
pub struct Options {
    /// Send each job to this URL, with the headers and signature of a push; also to this machine
    #[arg(long, value_name = "URL")]
    post: Option<String>,
    /// The file with the secrets of the signature, whsec_… one a line; - reads standard input
    #[arg(long, value_name = "FILE", requires = "post")]
    secret_file: Option<PathBuf>,
    /// Time for an answer of the endpoint
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "15s", requires = "post")]
    timeout: Millis,
}

/// An endpoint.
pub struct Endpoint {
    client: guarded_client::Client,
    url: TargetUrl,
    templates: Vec<(Topic, Template)>,
    timeout: Duration,
    /// Delay after the next answer that asks for a later try.
    delay: Cell<Millis>,
}

#[derive(Deserialize)]
struct Rules {
    backoff: Option<Value>,
}

impl Options {
    /// Returns the endpoint; `None` without `--post`.
    ///
    /// # Errors
    /// The URL or a secret is invalid.
    pub fn endpoint(&self, topics: &[Topic]) -> Result<Option<Endpoint>, Failure> {
        let Some(text) = &self.post else { return Ok(None) };
        let wrong = |error: String| Failure::Usage(format!("--post {error}; got {text:?}"));
        let url = TargetUrl::parse(text).map_err(|error| wrong(error.to_string()))?;
        // The user of this command may reach all that it can reach.
        let everywhere = ["0.0.0.0/0", "::/0"].map(str::parse).into_iter().flatten().collect();
        let allowed = Allowed::new(everywhere, vec!["*".to_owned()]);
        let options = guarded_client::Options { allowed, ..guarded_client::Options::default() };
        let client =
            guarded_client::Client::new(options).map_err(|error| wrong(error.to_string()))?;
        let push = Push {
            url: url.to_string(),
            concurrency: 1,
            rate: None,
            timeout: self.timeout.get(),
            secrets: self.secrets()?,
            headers: Headers::default(),
            authorization: None,
            batch: None,
            backoff: None,
            secret_headers: std::collections::BTreeMap::new(),
            set_by: None,
            accepted_at: None,
            paused: None,
        };
        let template = |topic: &Topic| (topic.clone(), Template::new(topic, &push));
        Ok(Some(Endpoint {
            client,
            url,
            templates: topics.iter().map(template).collect(),
            timeout: self.timeout.into(),
            delay: Cell::new(FIRST_DELAY),
        }))
    }

    fn secrets(&self) -> Result<Vec<Hidden>, Failure> {
        let Some(file) = &self.secret_file else { return Ok(Vec::new()) };
        let text = read(file)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let secrets: Vec<Hidden> = lines.map(|line| Hidden::new(line.to_owned())).collect();
        let are_valid = secrets.iter().all(|secret| decode_secret(secret.reveal()).is_some());
        match are_valid && (1..=MAX_SECRETS).contains(&secrets.len()) {
            true => Ok(secrets),
            false => Err(Failure::Usage(format!(
                "--secret-file must have 1 to {MAX_SECRETS} lines of whsec_ and the base64 text of 24 to 64 bytes; \
                 {} has others",
                file.display()
            ))),
        }
    }
}

impl Endpoint {
    /// Sends the request of a job and judges the answer.
    ///
    /// # Errors
    /// This version does not know a form of the job.
    async fn send(&self, job: &Job) -> Result<Judged, String> {
        let popped = job.as_popped()?;
        let template = self.templates.iter().find(|(topic, _)| *topic == popped.topic);
        let (_, template) = template.ok_or("the job has another topic")?;
        let prepared = template.one(&popped, Clock::Own.now().floor);
        let limits = Limits { timeout: self.timeout, answer_bytes: answer_bytes(None) };
        let answer = self.client.post(&self.url, prepared.headers, prepared.body, limits).await;
        // The user of this command may keep results of all that it can reach.
        let answer = answer.map(|answer| Answer {
            is_public: answer.is_public || answer.status.is_success(),
            ..answer
        });
        Ok(Judged::of_one(answer, Clock::Own.now().floor))
    }

    /// Returns the delay of a job that the endpoint cannot take now. It doubles until another
    /// answer.
    fn next_delay(&self, asked: Option<Millis>) -> Millis {
        let delay = self.delay.get();
        self.delay.set(Millis::new(delay.get() * 2).min(LONGEST_DELAY));
        asked.unwrap_or(delay)
    }
}

impl Worker<'_> {
    /// Sends a job to the endpoint until it answers, the reservation is lost, or the grace of a
    /// stop is over.
    pub async fn post(&self, endpoint: &Endpoint, job: &Job) {
        let began = Instant::now();
        let judged = tokio::select! {
            judged = endpoint.send(job) => judged,
            lost = self.hold(job) => {
                return complain(format_args!("job {}: ending its request: {lost}", job.id));
            }
            () = self.stopped_for(self.work.grace.into()) => return self.give_back(job, 0.0).await,
        };
        let judged = judged.map(|judged| {
            let verdict = judged.verdicts.into_iter().next();
            (judged.status, verdict.unwrap_or(Verdict::Failed("no answer".to_owned())))
        });
        let (status, verdict) = judged.unwrap_or_else(|error| (None, Verdict::Failed(error)));
        self.show(job, status, &verdict, began.elapsed());
        self.settle(endpoint, job, verdict).await;
    }

    /// Ends the attempt by the verdict, as a push does.
    async fn settle(&self, endpoint: &Endpoint, job: &Job, verdict: Verdict) {
        let fields = Fields::new(job);
        if !matches!(verdict, Verdict::Later { .. }) {
            endpoint.delay.set(FIRST_DELAY);
        }
        match verdict {
            Verdict::Accepted(result) => {
                let result = result.filter(|_| self.work.result);
                let result = result.and_then(|json| String::from_utf8(json.to_vec()).ok());
                let result = result.and_then(|json| RawValue::from_string(json).ok());
                self.deliver(job, "finish", Fields { result, ..fields }).await;
            }
            Verdict::Refused(error) => {
                self.deliver(job, "bury", Fields { error: Some(error), ..fields }).await;
            }
            Verdict::Later { after, error } => {
                let delay = endpoint.next_delay(after).get() as f64 / 1e3;
                let (delay, count_attempt) = (Some(delay), Some(false));
                let fields = Fields { error: Some(error), delay, count_attempt, ..fields };
                self.deliver(job, "release", fields).await;
            }
            Verdict::Failed(error) => {
                let delay = self.backoff(job).await;
                let fields = Fields { error: Some(error), delay, ..fields };
                self.deliver(job, "release", fields).await;
            }
        }
    }

    /// Returns the delay after a failure, in seconds: that of a push if the job has no backoff of
    /// its own. A token that may not read the job leaves the delay to the server.
    async fn backoff(&self, job: &Job) -> Option<f64> {
        let answer = self.client.send(Request::get(format!("/jobs/{}", job.id))).await.ok()?;
        let rules: Rules = serde_json::from_slice(&answer).ok()?;
        let attempt = u32::try_from(job.attempt).unwrap_or(u32::MAX);
        let wait = || default_backoff(attempt, rand::random()).get() as f64 / 1e3;
        rules.backoff.is_none().then(wait)
    }

    /// Prints the answer to a job.
    fn show(&self, job: &Job, status: Option<u16>, verdict: &Verdict, time: Duration) {
        let (outcome, error) = match verdict {
            Verdict::Accepted(_) => ("finished", None),
            Verdict::Refused(error) => ("buried", Some(error)),
            Verdict::Later { error, .. } => ("released uncounted", Some(error)),
            Verdict::Failed(error) => ("released", Some(error)),
        };
        let (id, attempt, ms) = (&job.id, job.attempt, time.as_millis());
        let text = match self.client.output.form {
            Form::Table => {
                let status = status.map_or("-".to_owned(), |status| status.to_string());
                let error = error.map_or(String::new(), |error| format!(": {error}"));
                let line =
                    format!("[{id}] attempt {attempt}: {status} in {ms} ms, {outcome}{error}");
                line.replace(char::is_control, " ")
            }
            _ => json!({
                "id": id, "attempt": attempt, "status": status, "ms": ms, "outcome": outcome,
                "error": error,
            })
            .to_string(),
        };
        // A closed or full output does not stop the deliveries.
        if let Err(failure) = print(text) {
            complain(failure);
        }
    }
}
