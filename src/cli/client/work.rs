//! `work`: runs a command for each job of a topic.

mod attempt;
mod job;
mod post;
mod process;
mod stream;

use std::{
    cell::RefCell,
    collections::HashSet,
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    pin::pin,
    time::Duration,
};

use clap::Args;
use futures::{
    FutureExt, StreamExt,
    future::{Fuse, FusedFuture, select_all},
    stream::FuturesUnordered,
};
use rustix::fs::{Access, access};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use self::{attempt::LAST_STEPS, job::Job, post::Endpoint};
use super::{at::duration, away::Away, consume::Pop, failure::Failure, http::Client};
use crate::{
    cli::serve::ignores_hang_up,
    job::{Millis, Topic},
};

/// Time that a pop waits for a job. A stop lets it end, because its answer may contain jobs.
const POP_WAIT: Millis = Millis::new(2_000);

/// A worker that runs a command for each job.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct Work {
    /// A topic of the jobs; repeat the option for further topics, earlier ones come first
    #[arg(long = "topic", value_name = "TOPIC", required = true)]
    topics: Vec<Topic>,
    /// Number of commands at the same time
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    concurrency: u16,
    /// Time that a job is held without a touch [default: the TTR of each job]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ttr: Option<Millis>,
    /// Write a body that is text without its JSON quotes
    #[arg(long)]
    raw: bool,
    /// Keep the standard output of the command, or the JSON answer of the endpoint, as the result
    /// of the job
    #[arg(long)]
    result: bool,
    /// Time that commands may still run after a stop; after a lost reservation, time from SIGTERM
    /// to SIGKILL
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s")]
    grace: Millis,
    /// Wait of a job whose command exits with 75 [default: as after the attempt before it, at least
    /// 1 s]
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "post")]
    snooze: Option<Millis>,
    #[command(flatten)]
    post: post::Options,
    /// The command and its arguments
    #[arg(last = true, required_unless_present = "post", conflicts_with = "post")]
    #[arg(value_name = "COMMAND")]
    command: Vec<OsString>,
}

const HELP: &str = "\
The command gets the body on standard input, as JSON text and a newline, and the variables
DELAY_QUEUE_JOB_ID, _TOPIC, _ATTEMPT, _MAX_ATTEMPTS, _DUE_AT, _RESERVATION, _TRACEPARENT and
_HEADER_<NAME>. Its exit code decides: 0 finishes the job, 65 buries it, 75 releases it without
counting the attempt, any other releases it with the last lines of standard error as its error.

With --post, each job is sent to a URL as the push of a topic sends it, and the answer decides.

Exit codes: 0 stopped by a signal, 1 refused by the server, 2 wrong use, 5 not allowed";

/// The moment from which a worker takes no more jobs.
type Stop = watch::Receiver<Option<Instant>>;

/// A running worker.
struct Worker<'a> {
    client: &'a Client,
    work: &'a Work,
    stop: Stop,
    away: Away,
    /// Endpoint that gets the jobs instead of a command.
    endpoint: Option<Endpoint>,
    /// Ids of the jobs whose commands or requests run.
    running: RefCell<HashSet<String>>,
}

impl Work {
    pub async fn run(self, client: &Client) -> Result<(), Failure> {
        let endpoint = self.post.endpoint(&self.topics)?;
        if let Some(command) = self.command.first() {
            find_command(Path::new(command))?;
        }
        let (stopping, stop) = watch::channel(None);
        let (away, running) = (Away::default(), RefCell::default());
        Worker { client, work: &self, stop, away, endpoint, running }.run(&stopping).await
    }
}

impl Worker<'_> {
    /// Pops and runs jobs until a signal, or until the server refuses a pop.
    async fn run(&self, stopping: &watch::Sender<Option<Instant>>) -> Result<(), Failure> {
        let ignores_hang_up = ignores_hang_up(); // must be read before the handler below is set
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::quit()];
        let kinds = kinds.into_iter().chain((!ignores_hang_up).then(SignalKind::hangup));
        let mut signals = kinds.map(signal).collect::<io::Result<Vec<_>>>()?;
        let mut running = FuturesUnordered::new();
        let mut popping = pin!(Fuse::terminated());
        let mut result = Ok(());
        loop {
            let is_stopping = stopping.borrow().is_some();
            let free = usize::from(self.work.concurrency) - running.len();
            if popping.is_terminated() && free > 0 && !is_stopping {
                popping.set(self.pop(free).fuse());
            }
            if is_stopping && popping.is_terminated() && running.is_empty() {
                return result;
            }
            tokio::select! {
                popped = &mut popping, if !popping.is_terminated() => match popped {
                    Ok(jobs) => running.extend(jobs.into_iter().map(|job| self.attempt(job))),
                    Err(failure) => {
                        result = Err(failure);
                        stopping.send_replace(Some(Instant::now()));
                    }
                },
                Some(()) = running.next() => {}
                _ = any_of(&mut signals), if !is_stopping => {
                    stopping.send_replace(Some(Instant::now()));
                }
            }
        }
    }

    /// Pops up to `count` jobs. Waits while the server is unavailable. Returns none at a stop.
    async fn pop(&self, count: usize) -> Result<Vec<Job>, Failure> {
        let pop = Pop {
            topics: self.work.topics.clone(),
            wait: Some(POP_WAIT),
            count: u16::try_from(count).ok(),
            ttr: self.work.ttr,
            consumer: None,
        };
        let mut pause = self.away.pauses();
        let grace = Duration::from(self.work.grace.max(POP_WAIT)) + LAST_STEPS;
        loop {
            let popped = tokio::select! {
                popped = pop.send(self.client) => popped,
                // The answer of a pop that is under way may have jobs.
                () = self.stopped_for(grace) => return Ok(Vec::new()),
            };
            match popped {
                Ok(jobs) => {
                    self.away.is_back();
                    return jobs.iter().map(|job| Job::read(job)).collect();
                }
                Err(failure) if failure.is_temporary() => {
                    tokio::select! {
                        () = sleep(pause.next(&failure)) => {}
                        () = self.stopped_for(Duration::ZERO) => return Ok(Vec::new()),
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Waits for a stop, and then for this long.
    async fn stopped_for(&self, span: Duration) {
        let mut stop = self.stop.clone();
        let since = stop.wait_for(Option::is_some).await.ok().and_then(|since| *since);
        if let Some(since) = since {
            sleep_until(since + span).await;
        }
    }
}

/// Waits for one of the signals.
pub async fn any_of(signals: &mut [Signal]) {
    select_all(signals.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
}

/// Checks that a command exists, before any job is popped for it.
fn find_command(command: &Path) -> Result<(), Failure> {
    let is_usable = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = match command.components().count() {
        1 => env::split_paths(&folders).any(|folder| is_usable(&folder.join(command))),
        _ => is_usable(&command.to_owned()),
    };
    match found {
        true => Ok(()),
        false => {
            let text = format!("failed to find the command {}", command.display());
            Err(Failure::Usage(format!("{text}: check its name and that it is executable")))
        }
    }
}
