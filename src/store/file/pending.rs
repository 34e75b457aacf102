//! Changes of records by the current batch that are not in the file yet.

use std::collections::HashMap;

use bytes::Bytes;

use super::{
    index::Attempt,
    machine::Write,
    records::{ErrorAndHistory, ReadError, StoredFields, change_of},
};
use crate::{
    job::{Change, NewJob, PolicyFields, TopicSettings},
    store::{StoredToken, TokenChange},
};

/// Pending changes by serial number, built only when a record is read.
#[derive(Default)]
pub struct Pending {
    changed: HashMap<u64, Changed>,
    /// Number of the batch's writes that are already in `changed`.
    seen: usize,
}

/// Fields of a record that differ from the file.
#[derive(Debug, Clone, Default)]
struct Changed {
    /// A record that is not in the file yet.
    new: Option<StoredFields>,
    body: Option<Bytes>,
    policy: Vec<PolicyFields>,
    /// Places of the writes that change its attempt.
    attempts: Vec<usize>,
    /// Last attempt of a finished job.
    attempt: Option<Attempt>,
}

impl Changed {
    fn change(&mut self, change: &Change) {
        self.policy.push(change.policy.clone());
        self.body = change.body.clone().or(self.body.take());
    }
}

impl Pending {
    /// Returns a record in its state after `writes`; `read` reads the record from the file.
    pub fn read(
        &mut self,
        writes: &[Write],
        serial: u64,
        read: impl FnOnce() -> Result<StoredFields, ReadError>,
    ) -> Result<StoredFields, ReadError> {
        let changed = self.after(writes, serial);
        let Some(Changed { new, body, policy, .. }) = changed else { return read() };
        let mut record = new.clone().map_or_else(read, Ok)?;
        policy.iter().for_each(|fields| record.policy.set(fields.clone()));
        Ok(StoredFields { body: body.clone().unwrap_or(record.body), ..record })
    }

    /// Returns the data of a popped job that only the disk has, in its state after `writes`.
    pub fn read_error_and_history(
        &mut self,
        writes: &[Write],
        serial: u64,
        read: impl FnOnce() -> Result<ErrorAndHistory, ReadError>,
    ) -> Result<ErrorAndHistory, ReadError> {
        let changed = self.after(writes, serial);
        let places = changed.map_or(&[][..], |changed| &changed.attempts);
        let mut past = read()?;
        places.iter().for_each(|place| past.follow(&writes[*place]));
        Ok(past)
    }

    /// Returns whether `writes` change the attempt of a job.
    pub fn changes_attempt(&mut self, writes: &[Write], serial: u64) -> bool {
        self.after(writes, serial).is_some_and(|changed| !changed.attempts.is_empty())
    }

    /// Returns the last attempt of a finished job in its state after `writes`.
    pub fn read_attempt(
        &mut self,
        writes: &[Write],
        serial: u64,
        read: impl FnOnce() -> Result<Attempt, ReadError>,
    ) -> Result<Attempt, ReadError> {
        match self.after(writes, serial).and_then(|changed| changed.attempt.clone()) {
            Some(attempt) => Ok(attempt),
            None => read(),
        }
    }

    fn after(&mut self, writes: &[Write], serial: u64) -> Option<&Changed> {
        for (place, write) in writes.iter().enumerate().skip(self.seen) {
            self.add(place, write);
        }
        self.seen = writes.len();
        self.changed.get(&serial)
    }

    fn add(&mut self, place: usize, write: &Write) {
        let Some(serial) = write.serial() else { return };
        match write {
            Write::Insert { job, created_at, .. } => {
                let NewJob { body, policy, .. } = job.clone();
                let new = Some(StoredFields { body, created_at: *created_at, policy });
                self.changed.insert(serial, Changed { new, ..Changed::default() });
            }
            Write::Change { change, .. } => {
                self.changed.entry(serial).or_default().change(change);
            }
            Write::Move { policy, .. } => {
                self.changed.entry(serial).or_default().policy.push(policy.clone());
            }
            Write::Finish { attempt, outcome, result, retention, .. } => {
                let changed = self.changed.entry(serial).or_default();
                changed.change(&change_of(*outcome, result.as_ref(), *retention));
                changed.attempt = Some(attempt.clone());
                changed.attempts.push(place);
            }
            Write::Attempt { .. } | Write::NoAttempt { .. } => {
                self.changed.entry(serial).or_default().attempts.push(place);
            }
            _ => {}
        }
    }
}

pub fn settings_after(writes: &[Write], mut settings: TopicSettings) -> TopicSettings {
    for write in writes {
        if let Write::Setting(setting) = write {
            settings.set(setting.clone());
        }
    }
    settings
}

pub fn tokens_after(writes: &[Write], mut tokens: Vec<StoredToken>) -> Vec<StoredToken> {
    for write in writes {
        match write {
            Write::Token(TokenChange::Create { name, text, .. }) => {
                let (name, text) = (name.clone(), text.clone());
                tokens.push(StoredToken { name, text, used_at: None });
            }
            Write::Token(TokenChange::Revoke { name }) => {
                tokens.retain(|token| token.name != *name);
            }
            Write::TokenUses(uses) => {
                for token in &mut tokens {
                    let at = uses.iter().rfind(|(name, _)| *name == token.name).map(|(_, at)| *at);
                    token.used_at = at.or(token.used_at);
                }
            }
            _ => {}
        }
    }
    tokens
}
