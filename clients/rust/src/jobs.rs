//! Calls about one job by its id.

use std::time::Duration;

use reqwest::Method;
use tokio::time::Instant;

use crate::{Error, Queue, State, StoredJob, transport::segment, value::millis};

/// Longest wait of one request.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Pause before a wait is continued that the server ended early, because it stops.
const PAUSE: Duration = Duration::from_millis(200);

impl Queue {
    /// Returns a job, or `None` if no job has this id.
    ///
    /// # Errors
    ///
    /// A refusal other than `job_not_found`, or no answer.
    pub async fn get(&self, id: &str) -> Result<Option<StoredJob>, Error> {
        unless_absent(self.call(Method::GET, &format!("/jobs/{}", segment(id)), None).await)
    }

    /// Waits until a job is finished or dead, and returns it. Returns it as it is when `wait` is
    /// over, and `None` if it is gone: it is finished and not kept, or was deleted.
    ///
    /// # Errors
    ///
    /// A refusal other than `job_not_found`, or no answer.
    pub async fn get_and_wait(&self, id: &str, wait: Duration) -> Result<Option<StoredJob>, Error> {
        let deadline = Instant::now() + wait;
        loop {
            let call = || async move {
                let rest = deadline.saturating_duration_since(Instant::now()).min(LONGEST_WAIT);
                let path = format!("/jobs/{}?wait={}ms", segment(id), millis::ceil(rest));
                self.call_once(Method::GET, &path, None, rest).await
            };
            let Some(job) = unless_absent::<StoredJob>(self.repeat(call).await)? else {
                return Ok(None);
            };
            let is_over = matches!(job.state, State::Finished | State::Dead);
            if is_over || Instant::now() >= deadline {
                return Ok(Some(job));
            }
            tokio::time::sleep(PAUSE.min(deadline - Instant::now())).await;
        }
    }
}

pub(crate) fn unless_absent<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == Some("job_not_found") => Ok(None),
        Err(error) => Err(error),
    }
}
