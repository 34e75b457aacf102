//! One attempt: runs the command, touches the job meanwhile, and reports the result.

use std::{cell::RefCell, collections::HashSet, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use tokio::time::{sleep, timeout};

use super::{
    Worker,
    job::Job,
    process::{Ended, Process},
};
use crate::{
    cli::client::{
        failure::{Failure, complain},
        http::Request,
    },
    job::{Backoff, JobId, MAX_RESULT_BYTES, Millis},
};

/// Time for one touch, so that a dead connection does not outlast the TTR.
const TOUCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay of a job whose command could not be started, or whose last command still runs.
const START_PAUSE: f64 = 5.0;
/// Least wait of a job whose command exits with 75.
const LEAST_SNOOZE: Millis = Millis::new(1_000);
/// Time after the grace in which commands end and their jobs are given back.
pub const LAST_STEPS: Duration = Duration::from_secs(2);

/// Fields of a finish, release, touch or bury.
#[derive(Default, Serialize)]
pub struct Fields<'a> {
    pub reservation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count_attempt: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttr: Option<f64>,
}

impl Worker<'_> {
    /// Runs the command for a job, until it ends, the reservation is lost, or the grace of a stop
    /// is over.
    pub async fn attempt(&self, job: Job) {
        if self.stop.borrow().is_some() {
            return self.give_back(&job, 0.0).await;
        }
        // The reservation ended, and this pop got the job again before the command was ended.
        let Some(_running) = Running::begin(&self.running, &job.id) else {
            return self.give_back(&job, START_PAUSE).await;
        };
        if let Some(endpoint) = &self.endpoint {
            return self.post(endpoint, &job).await;
        }
        let mut process = match Process::start(self.work, &job) {
            Ok(process) => process,
            Err(cause) => {
                complain(format_args!("job {}: failed to start the command: {cause}", job.id));
                return self.give_back(&job, START_PAUSE).await;
            }
        };
        let grace = self.work.grace.into();
        let ended = tokio::select! {
            () = process.ended() => match process.collect().await {
                Ok(ended) => return self.report(&job, ended).await,
                Err(cause) => {
                    self.give_back(&job, START_PAUSE).await;
                    Err(cause)
                }
            },
            lost = self.hold(&job) => {
                complain(format_args!("job {}: ending its command: {lost}", job.id));
                process.end(grace).await
            }
            () = self.stopped_for(grace) => {
                let ended = process.end(LAST_STEPS / 2).await;
                self.give_back(&job, 0.0).await;
                ended
            }
        };
        if let Err(cause) = ended {
            complain(format_args!("job {}: failed to end the command: {cause}", job.id));
        }
    }

    /// Touches a job until its reservation is lost.
    pub async fn hold(&self, job: &Job) -> Failure {
        let interval = job.touch_interval();
        loop {
            sleep(interval).await;
            let mut pauses = self.away.pauses();
            let fields = Fields { ttr: Some(job.ttr), ..Fields::new(job) };
            let touch = || timeout(interval.min(TOUCH_TIMEOUT), self.send(job, "touch", &fields));
            while let Err(failure) = touch().await.unwrap_or_else(|_| Err(too_late())) {
                if is_gone(&failure) {
                    return failure;
                }
                sleep(pauses.next(&failure).min(interval)).await;
            }
        }
    }

    /// Finishes, buries or releases a job, as the exit code of its command says.
    async fn report(&self, job: &Job, ended: Ended) {
        let fields = Fields::new(job);
        match ended.status.code() {
            Some(0) => {
                let result = self.work.result.then(|| as_json(&ended.result)).flatten();
                let result = result.filter(|result| {
                    let fits = result.get().len() <= MAX_RESULT_BYTES;
                    if !fits {
                        complain(format_args!("job {}: its result exceeds 64 KiB", job.id));
                    }
                    fits
                });
                self.deliver(job, "finish", Fields { result, ..fields }).await;
            }
            Some(65) => {
                self.deliver(job, "bury", Fields { error: Some(ended.error()), ..fields }).await;
            }
            Some(75) => {
                let delay = Some(self.snooze(job).await.get() as f64 / 1e3);
                let (error, count_attempt) = (Some(ended.error()), Some(false));
                let fields = Fields { error, delay, count_attempt, ..fields };
                self.deliver(job, "release", fields).await;
            }
            _ => {
                let error = Some(ended.error());
                self.deliver(job, "release", Fields { error, ..fields }).await;
            }
        }
    }

    /// Returns the wait after an attempt that does not count: that after the attempt before it, but
    /// at least a second, since the command would otherwise run again at once.
    async fn snooze(&self, job: &Job) -> Millis {
        if let Some(snooze) = self.work.snooze {
            return snooze;
        }
        let before = u32::try_from(job.attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        let wait = match before {
            0 => None,
            _ => self.backoff_of(job).await.map(|(id, backoff)| backoff.delay(&id, before)),
        };
        wait.unwrap_or_default().max(LEAST_SNOOZE)
    }

    /// Reads the backoff of a job; `None` if it has none or the token may not read it.
    async fn backoff_of(&self, job: &Job) -> Option<(JobId, Backoff)> {
        #[derive(Deserialize)]
        struct Rules {
            backoff: Option<Backoff>,
        }
        let answer = self.client.send(Request::get(format!("/jobs/{}", job.id))).await.ok()?;
        Some((job.id.parse().ok()?, serde_json::from_slice::<Rules>(&answer).ok()?.backoff?))
    }

    pub async fn give_back(&self, job: &Job, delay: f64) {
        let fields = Fields { delay: Some(delay), count_attempt: Some(false), ..Fields::new(job) };
        self.deliver(job, "release", fields).await;
    }

    /// Sends the end of an attempt until the server answers.
    pub async fn deliver(&self, job: &Job, route: &str, mut fields: Fields<'_>) {
        let mut pauses = self.away.pauses();
        let mut is_unsure = false;
        loop {
            let failure = match self.send(job, route, &fields).await {
                Ok(()) => return,
                Err(failure) => failure,
            };
            // An earlier try was made, and its answer was lost.
            if is_unsure && is_gone(&failure) {
                return;
            }
            is_unsure |= failure.is_temporary();
            if failure.is_temporary() {
                let is_over = tokio::select! {
                    () = sleep(pauses.next(&failure)) => false,
                    () = self.stopped_for(Duration::from(self.work.grace) + LAST_STEPS) => true,
                };
                if !is_over {
                    continue;
                }
            } else if is_about_result(&failure) && fields.result.take().is_some() {
                complain(format_args!(
                    "job {}: finishing it without its result: {failure}",
                    job.id
                ));
                continue;
            }
            return complain(format_args!("job {}: failed to {route} it: {failure}", job.id));
        }
    }

    async fn send(&self, job: &Job, route: &str, fields: &Fields<'_>) -> Result<(), Failure> {
        let request = Request::post(format!("/jobs/{}/{route}", job.id)).json(fields)?;
        self.client.send(request).await?;
        self.away.is_back();
        Ok(())
    }
}

/// A job whose command runs.
struct Running<'a> {
    all: &'a RefCell<HashSet<String>>,
    id: &'a str,
}

impl<'a> Running<'a> {
    /// Returns `None` if a command of this job runs already.
    fn begin(all: &'a RefCell<HashSet<String>>, id: &'a str) -> Option<Self> {
        let is_new = all.borrow_mut().insert(id.to_owned());
        is_new.then(|| Self { all, id })
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.all.borrow_mut().remove(self.id);
    }
}

impl<'a> Fields<'a> {
    pub fn new(job: &'a Job) -> Self {
        Self { reservation: &job.reservation, ..Self::default() }
    }
}

/// Returns output as JSON: itself if it is JSON, else as text; nothing if it is empty.
fn as_json(output: &str) -> Option<Box<RawValue>> {
    if output.is_empty() {
        return None;
    }
    let json = RawValue::from_string(output.to_owned());
    json.or_else(|_| serde_json::value::to_raw_value(&Value::from(output))).ok()
}

fn too_late() -> Failure {
    Failure::Unreachable("the server did not answer a touch in time".to_owned())
}

/// Returns whether the job is gone or held by another consumer.
fn is_gone(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(problem) if matches!(problem.status, 404 | 409))
}

fn is_about_result(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(problem) if matches!(problem.status, 413 | 422))
}
