//! Sends the requests of a push, and finishes, releases or buries their jobs by the answers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::join;
use guarded_client::{Answer, Failure, Limits, TargetUrl};

use super::{
    flight::Flight,
    gate::Gate,
    lane::{Due, Lane},
    load::Load,
    request::{Prepared, Template},
    shared::Shared,
    status::PushFailure,
    target::{Ended, Health, Target},
    verdict::{Judged, Verdict, answer_bytes, default_backoff},
};
use crate::{
    job::{JobId, MAX_ERROR_BYTES, Millis, PoppedJob, Push, Topic, beginning},
    queue::QueueError,
    store::{Bury, Clock, Finish, JobRef, Release},
};

/// Waits between tries to settle a job while the store is unavailable.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Time by which the TTR of a pushed job exceeds that of its request, in milliseconds.
const MARGIN: u64 = 10_000;

/// A push with one version of its setting.
pub struct Sender {
    pub shared: Arc<Shared>,
    pub lane: Arc<Lane>,
    pub target: Arc<Target>,
    /// Gate of this version of the push, which its answers close.
    pub gate: Arc<Gate>,
    pub topic: Topic,
    pub push: Arc<Push>,
    pub url: TargetUrl,
    pub template: Template,
}

impl Sender {
    /// Returns the TTR of the jobs of a request.
    pub fn ttr(&self) -> Millis {
        Millis::new(self.push.timeout().get() + self.linger() + MARGIN)
    }

    /// Returns how long jobs may be held before their request begins. The rest of the TTR is enough
    /// for the request and the transition after it.
    pub fn longest_hold(&self) -> Duration {
        Duration::from_millis(self.linger() + MARGIN / 2)
    }

    /// Returns how long a batch waits for more jobs, in milliseconds.
    fn linger(&self) -> u64 {
        self.push.batch.map_or(0, |batch| batch.linger)
    }

    /// Sends the request with these jobs that `flight` counts. `load` counts their bodies.
    pub async fn send(self: Arc<Self>, mut jobs: Vec<PoppedJob>, mut flight: Flight, load: Load) {
        let began = Instant::now();
        let answer = tokio::select! {
            answer = self.exchange(&mut jobs) => Some(answer),
            () = self.shared.abort.cancelled() => None,
        };
        drop(load);
        let Some(answer) = answer else { return self.give_back(jobs).await };
        let judged = self.judge(answer, &jobs);
        let ended = Ended {
            is_delivered: judged.failure().is_none(),
            health: judged.health,
            is_busy: judged.verdicts.iter().any(Verdict::is_later),
            time: began.elapsed(),
        };
        flight.ended(ended);
        self.note(&judged, ended, &jobs);
        let gate = match judged.health {
            Health::Unreachable => &self.target.host,
            _ => &self.gate,
        };
        self.settle(jobs, judged.verdicts, gate).await;
    }

    /// Sends a request with the bodies of the jobs, which it removes from them, so that a
    /// batch is in memory once.
    async fn exchange(&self, jobs: &mut [PoppedJob]) -> Result<Answer, Failure> {
        let now = Clock::Own.now().floor;
        let Prepared { headers, body } = match self.push.batch {
            None => self.template.one(&jobs[0], now),
            Some(_) => self.template.batch(jobs, now).map_err(|error| {
                Failure::NotSent(format!("the stored body of a job is not JSON: {error}"))
            })?,
        };
        jobs.iter_mut().for_each(|job| job.body = Bytes::new());
        let limits = Limits {
            timeout: self.push.timeout().into(),
            answer_bytes: answer_bytes(self.push.batch.map(|_| jobs.len())),
        };
        self.lane.client.post(&self.url, headers, body, limits).await
    }

    fn judge(&self, answer: Result<Answer, Failure>, jobs: &[PoppedJob]) -> Judged {
        let now = Clock::Own.now().floor;
        match self.push.batch {
            None => Judged::of_one(answer, now),
            Some(_) => {
                let ids: Vec<&JobId> = jobs.iter().map(|job| &job.id).collect();
                Judged::of_batch(answer, &ids, now)
            }
        }
    }

    /// Records the results of a request for answers and metrics, and pauses a push that has failed
    /// for days.
    fn note(self: &Arc<Self>, judged: &Judged, ended: Ended, jobs: &[PoppedJob]) {
        self.shared.meters.count(&self.target.name, &judged.verdicts, ended.time);
        let failure = judged.failure().map(|(index, error)| PushFailure {
            at: Clock::Own.now().floor,
            id: jobs[index].id.clone(),
            status: judged.status,
            error: error.to_owned(),
        });
        let has_accepted = judged.verdicts.iter().any(|one| matches!(one, Verdict::Accepted(_)));
        let due = self.lane.record(ended.results(), failure, has_accepted, Instant::now());
        let (shared, topic) = (Arc::clone(&self.shared), self.topic.clone());
        match due {
            Due::Nothing => {}
            Due::Note => {
                drop(self.shared.tasks.spawn(async move { shared.note_acceptance(&topic).await }))
            }
            Due::Pause => {
                self.lane.restart_failing_time();
                self.shared.tasks.spawn(async move { shared.pause_failing(&topic).await });
            }
        }
    }

    /// Finishes, releases or buries each job by its verdict. `gate` knows the delays of jobs that
    /// wait.
    async fn settle(&self, jobs: Vec<PoppedJob>, verdicts: Vec<Verdict>, gate: &Gate) {
        let until = jobs.first().map(|job| Instant::now() + Duration::from(job.ttr));
        let until = until.unwrap_or_else(Instant::now);
        let (mut finished, mut released, mut buried) = (Vec::new(), Vec::new(), Vec::new());
        for (job, verdict) in jobs.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Accepted(result) => {
                    let result = result.filter(|_| !job.policy.finished_retention.is_zero());
                    finished.push(Finish { held: JobRef::from_popped(&job), result });
                }
                Verdict::Refused(error) => {
                    buried.push(Bury { held: JobRef::from_popped(&job), error: Some(cut(&error)) });
                }
                Verdict::Later { after, error } => {
                    let delay = after.unwrap_or_else(|| gate.retry_delay(Instant::now()));
                    released.push(Release {
                        delay: Some(delay),
                        error: Some(cut(&error)),
                        is_uncounted: true,
                        ..Release::new(JobRef::from_popped(&job))
                    });
                }
                Verdict::Failed(error) => released.push(Release {
                    delay: self.backoff(&job),
                    error: Some(cut(&error)),
                    ..Release::new(JobRef::from_popped(&job))
                }),
            }
        }
        let queue = &self.shared.queue;
        join!(
            self.retry(finished, until, |jobs| queue.finish(jobs)),
            self.retry(released, until, |jobs| queue.release(jobs)),
            self.retry(buried, until, |jobs| queue.bury(jobs)),
        );
    }

    /// Releases the jobs of a request that a shutdown has ended, uncounted and at once.
    async fn give_back(&self, jobs: Vec<PoppedJob>) {
        let release = |job: &PoppedJob| Release {
            delay: Some(Millis::ZERO),
            is_uncounted: true,
            ..Release::new(JobRef::from_popped(job))
        };
        let released = jobs.iter().map(release).collect();
        let queue = &self.shared.queue;
        self.retry(released, Instant::now(), |jobs| queue.release(jobs)).await;
    }

    /// Returns the wait after a counted failure; `None` if the job has a backoff.
    fn backoff(&self, job: &PoppedJob) -> Option<Millis> {
        if job.policy.backoff.is_some() {
            return None;
        }
        let backoff = self.push.backoff.as_ref();
        let wait = backoff.map(|backoff| backoff.delay(&job.id, job.attempt));
        Some(wait.unwrap_or_else(|| default_backoff(job.attempt, rand::random())))
    }

    /// Applies a transition to each job, and retries while the store is unavailable. After `until`,
    /// or once the server must stop, jobs whose transition still fails come back after their TTR.
    async fn retry<J, O, F>(&self, mut jobs: Vec<J>, until: Instant, act: impl Fn(Vec<J>) -> F)
    where
        J: Clone,
        F: Future<Output = Vec<Result<O, QueueError>>>,
    {
        let mut pause = FIRST_PAUSE;
        while !jobs.is_empty() {
            let is_last = self.shared.abort.is_cancelled() || Instant::now() >= until;
            let results = act(jobs.clone()).await;
            for (job, result) in std::mem::take(&mut jobs).into_iter().zip(results) {
                match result {
                    Ok(_) => {}
                    Err(QueueError::Store(error)) if is_last => {
                        let topic = &self.topic;
                        tracing::warn!(%topic, %error, "failed to record the result of a push");
                    }
                    Err(QueueError::Store(_)) => jobs.push(job),
                    // A client deleted the job, or an earlier try succeeded and its reply was lost.
                    Err(error) => {
                        tracing::debug!(topic = %self.topic, %error, "a pushed job is no longer reserved");
                    }
                }
            }
            if !jobs.is_empty() {
                tokio::select! {
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                    () = self.shared.abort.cancelled() => {}
                }
            }
        }
    }
}

/// Cuts an error to the size that stores accept.
fn cut(error: &str) -> String {
    beginning(error, MAX_ERROR_BYTES).to_owned()
}
