//! Replies about jobs that a script has changed.

use super::{Values, refusal, state_of};
use crate::{
    job::{Priority, State, UnixMillis},
    store::{Placed, PutOutcome, Readied, Reply, StoreError},
};

impl Values {
    /// Reads what `put.lua` returns of a job that it has created.
    pub fn placed(&mut self) -> Result<Reply<Placed>, StoreError> {
        Ok(match self.int()? {
            code @ ..0 => Err(refusal(code)?),
            created => Ok(Placed {
                how: PutOutcome::Created,
                state: if created % 2 == 1 { State::Ready } else { State::Delayed },
                due_at: UnixMillis::new(created.unsigned_abs() / 2),
                moved_to: None,
            }),
        })
    }

    /// Reads the state in which a job was deleted.
    pub fn deleted(&mut self) -> Result<Reply<State>, StoreError> {
        match self.reply_number()? {
            Ok(code) => state_of(i64::try_from(code).unwrap_or(0)).map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Reads a job that became ready: its topic and, each after a blank, its priority and the time
    /// at which it expires, if `readied.lua` adds them.
    pub fn readied(&mut self) -> Result<Reply<Readied>, StoreError> {
        let text = match self.reply_text()? {
            Ok(text) => text,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut words = text.split(' ');
        let topic = words.next().unwrap_or_default().parse().map_err(StoreError::unreadable)?;
        let priority = words.next().map_or(Ok(Priority::STANDARD), str::parse);
        let expires_at = words.next().map(|text| text.parse().map(UnixMillis::new)).transpose();
        Ok(Ok(Readied {
            topic,
            priority: priority.map_err(StoreError::unreadable)?,
            expires_at: expires_at.map_err(StoreError::unreadable)?,
        }))
    }
}
