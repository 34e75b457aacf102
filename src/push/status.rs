//! State of pushes and their targets, for answers and metrics.

use crate::job::{JobId, PushPause, Topic, UnixMillis};

/// State of a push on this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushState {
    /// Requests are sent when jobs are ready.
    Running,
    /// No requests are sent until a client resumes the push.
    Paused(PushPause),
    /// The target fails: one request a second probes it.
    Open,
}

/// State and recent results of a push, as this server knows them.
#[derive(Debug, Clone)]
pub struct PushStatus {
    /// The state.
    pub state: PushState,
    /// Why the push is not running; `None` if it is.
    pub reason: Option<String>,
    /// Requests that are under way on this server.
    pub in_flight: usize,
    /// Successful requests a second of this server over the last minute.
    pub delivered_per_second: f64,
    /// Failed requests a second of this server over the last minute.
    pub failed_per_second: f64,
    /// Failed requests, latest first.
    pub last_failures: Vec<PushFailure>,
}

/// A request that failed.
#[derive(Debug, Clone)]
pub struct PushFailure {
    /// When it failed.
    pub at: UnixMillis,
    /// Id of the job, or of the first job of a batch.
    pub id: JobId,
    /// Status of the answer; `None` without an answer.
    pub status: Option<u16>,
    /// Reason of the failure, as it is stored with the job.
    pub error: String,
}

/// Health of a target: the scheme, host and port of one or more pushes.
#[derive(Debug, Clone)]
pub struct TargetHealth {
    /// Scheme, host and port, as in `https://shop.example:443`.
    pub target: String,
    /// State of the circuit breaker on this server.
    pub state: BreakerState,
    /// Topics that are pushed there.
    pub topics: Vec<Topic>,
    /// Successful requests a second over the last minute.
    pub delivered_per_second: f64,
    /// Failed requests a second over the last minute.
    pub failed_per_second: f64,
    /// Mean time of a request over the last minute, in seconds; `None` without requests.
    pub mean_seconds: Option<f64>,
}

/// State of the circuit breaker of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BreakerState {
    /// The target answers.
    Closed,
    /// The target fails: one request a second probes it.
    Open,
    /// The target answers again: each success allows one more request at once.
    Recovering,
}

impl BreakerState {
    /// Returns a number that is greater for a worse state.
    pub fn severity(self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::Recovering => 1,
            Self::Open => 2,
        }
    }

    /// Returns the name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Recovering => "recovering",
        }
    }
}

impl PushState {
    /// Returns the name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused(_) => "paused",
            Self::Open => "open",
        }
    }
}

/// A test request and its answer.
#[derive(Debug, Clone)]
pub struct Tested {
    /// Headers of the request, with `***` as the value of secret ones.
    pub headers: Vec<(String, String)>,
    /// Body of the request.
    pub body: String,
    /// The answer, or the reason why there is none.
    pub answer: Result<TestAnswer, String>,
}

/// The answer to a test request.
#[derive(Debug, Clone)]
pub struct TestAnswer {
    /// Status.
    pub status: u16,
    /// Beginning of the body; `None` if it is empty, or if the address of the endpoint is not
    /// public.
    pub body: Option<String>,
    /// Time until the answer was complete, in seconds.
    pub seconds: f64,
    /// Why the successful answer to a batch does not accept its job; `None` if it does.
    pub warning: Option<String>,
}
