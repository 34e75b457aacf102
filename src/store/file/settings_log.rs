//! Log of changed topic settings, so that a reader asks for these topics alone.

use std::collections::{BTreeSet, VecDeque};

use crate::job::Topic;

/// Maximum number of logged changes: a reader that missed more reads all settings.
const LOGGED: usize = 10_000;

/// Topics whose settings changed last. In memory only, since no other process changes settings.
pub struct SettingsLog {
    /// Starts at 1, so that a reader with version 0 reads all settings.
    version: u64,
    changes: VecDeque<Topic>,
}

impl SettingsLog {
    pub fn new() -> Self {
        Self { version: 1, changes: VecDeque::new() }
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Logs a change. To be called with the change, not after its commit, whose outcome may be
    /// unknown: a reader of the new version reads the file after the commit.
    pub fn note(&mut self, topic: &Topic) {
        self.version += 1;
        if self.changes.len() == LOGGED {
            self.changes.pop_front();
        }
        self.changes.push_back(topic.clone());
    }

    /// Returns the topics that changed after version `known`; none if the log does not reach back
    /// to it.
    pub fn since(&self, known: u64) -> Option<BTreeSet<Topic>> {
        let missed = usize::try_from(self.version.checked_sub(known)?).ok()?;
        let from = self.changes.len().checked_sub(missed)?;
        Some(self.changes.range(from..).cloned().collect())
    }
}
