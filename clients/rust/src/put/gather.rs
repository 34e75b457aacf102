//! Puts of concurrent callers, gathered into batches: one request at a time, with all puts that
//! arrived while the previous one was under way. A put that arrives while none is under way is sent
//! at once. Without puts, no task runs.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::{runtime::Handle, select, sync::oneshot};

use super::PutJob;
use crate::{Applied, Error, Queue, batch, transport::parse};

/// Bytes of one request, unless a single put has more. Proxies such as nginx refuse requests of
/// more than 1 MiB by default.
const MAX_BYTES: usize = 1 << 20;
const START: &[u8] = br#"{"jobs":["#;
const END: &[u8] = b"]}";

/// Puts of a queue that wait for the request under way.
#[derive(Debug, Default)]
pub(crate) struct Gatherer(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether a [`Turn`] exists.
    is_sending: bool,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    json: Vec<u8>,
    /// Closed when the caller has dropped the put.
    answer: oneshot::Sender<Result<PutJob, Error>>,
    /// Runtime of the caller.
    runtime: Handle,
}

/// Right to send the puts of a queue. Its drop starts the next request, also after a panic and when
/// the runtime of this one ends.
struct Turn(Queue);

impl Queue {
    /// Sends a put once, in a request of its own or with others.
    pub(super) async fn put_once(&self, json: Vec<u8>) -> Result<PutJob, Error> {
        let (sender, answer) = oneshot::channel();
        if self.gatherer.join(Waiting { json, answer: sender, runtime: Handle::current() }) {
            // A task, because the caller may stop polling its future and wait for another put.
            drop(Turn(self.clone()));
        }
        answer.await.unwrap_or_else(|_| {
            let reason = "the runtime that sent the put has ended".to_owned();
            Err(Error::Unavailable { url: "/jobs".to_owned(), applied: Applied::Unknown, reason })
        })
    }

    async fn put_gathered(&self, mut puts: Vec<Waiting>) {
        if puts.len() > 1 {
            let Some(refused) = self.put_together(puts).await else { return };
            puts = refused;
        }
        for Waiting { json, mut answer, .. } in puts {
            select! {
                result = self.put_alone(json) => drop(answer.send(result)),
                // No other put is in this request, so it ends with its caller.
                () = answer.closed() => {}
            }
        }
    }

    async fn put_alone(&self, json: Vec<u8>) -> Result<PutJob, Error> {
        let (url, answer) = self.post_once("/jobs", json).await?;
        parse(url, &answer)
    }

    /// Sends the puts in one request. Returns them if the server refused it for a reason that may
    /// concern one put or the size.
    async fn put_together(&self, puts: Vec<Waiting>) -> Option<Vec<Waiting>> {
        let jobs: Vec<&[u8]> = puts.iter().map(|put| put.json.as_slice()).collect();
        let body = [START, &jobs.join(&b','), END].concat();
        let results = match self.post_once("/batch/jobs", body).await {
            Err(error) if is_refused_as_whole(&error) => return Some(puts),
            Err(error) => Err(error),
            Ok((url, answer)) => batch::results(url, &answer, puts.len()),
        };
        let results = results.unwrap_or_else(|error| vec![Err(error); puts.len()]);
        for (index, (put, result)) in puts.into_iter().zip(results).enumerate() {
            // The caller may have gone.
            let _ = put.answer.send(result.map_err(|error| as_of_one(error, index)));
        }
        None
    }
}

/// Returns whether the error may be that of one put of a batch, or of its size. Refusals of the
/// token, and of too many requests, concern all puts.
fn is_refused_as_whole(error: &Error) -> bool {
    match error {
        Error::Refused(refused) => {
            matches!(refused.status, 400..500) && !matches!(refused.status, 401 | 403 | 429)
        }
        Error::Protocol { .. } => true,
        _ => false,
    }
}

/// Returns the refusal as a single put would get it. In a batch, the server names fields by the
/// index of the put.
fn as_of_one(mut error: Error, index: usize) -> Error {
    if let Error::Refused(refused) = &mut error {
        let place = format!("jobs[{index}].");
        if let Some(field) = refused.field.as_mut().filter(|field| field.starts_with(&place)) {
            field.drain(..place.len());
        }
        refused.detail = refused.detail.replace(&format!("`{place}"), "`");
    }
    error
}

impl Gatherer {
    /// Adds a put. Returns whether the caller has the turn.
    fn join(&self, put: Waiting) -> bool {
        let mut state = self.state();
        state.waiting.push_back(put);
        !std::mem::replace(&mut state.is_sending, true)
    }

    /// Takes the puts of the next request. Without any, the turn ends.
    fn take(&self) -> Vec<Waiting> {
        let mut state = self.state();
        let (mut puts, mut bytes) = (Vec::new(), START.len() + END.len());
        while let Some(put) = state.waiting.pop_front() {
            if put.answer.is_closed() {
                continue;
            }
            bytes += put.json.len() + 1;
            if puts.len() == batch::MAX_JOBS || bytes > MAX_BYTES && !puts.is_empty() {
                state.waiting.push_front(put);
                break;
            }
            puts.push(put);
        }
        state.is_sending = !puts.is_empty();
        puts
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let puts = self.0.gatherer.take();
        if let Some(Waiting { runtime, .. }) = puts.first() {
            let (runtime, turn) = (runtime.clone(), Turn(self.0.clone()));
            runtime.spawn(async move { turn.0.put_gathered(puts).await });
        }
    }
}
