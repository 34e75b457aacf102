//! Pauses while the server is unavailable, with one line in the log.

use std::{cell::Cell, time::Duration};

use crate::cli::client::failure::{Failure, complain};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Availability of the server, as the log reports it.
#[derive(Default)]
pub struct Away {
    is_reported: Cell<bool>,
}

/// Growing pauses between the tries of one request.
pub struct Pauses<'a> {
    away: &'a Away,
    next: Duration,
}

impl Away {
    pub fn pauses(&self) -> Pauses<'_> {
        Pauses { away: self, next: FIRST_PAUSE }
    }

    /// Logs that the server answers again.
    pub fn is_back(&self) {
        if self.is_reported.replace(false) {
            complain("the server answers again");
        }
    }
}

impl Pauses<'_> {
    /// Returns the time until the next try. Logs the failure, unless it is the first: the server
    /// may close a connection at any time.
    pub fn next(&mut self, failure: &Failure) -> Duration {
        if self.next > FIRST_PAUSE && !self.away.is_reported.replace(true) {
            complain(format_args!("{failure}; waiting until it answers"));
        }
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}
