//! Log of changed topic settings, so that a reader can read only the changed topics.

use std::collections::{BTreeSet, VecDeque};

use crate::job::Topic;

/// Maximum number of logged changes. A reader that has missed more changes reads all settings.
const LOGGED: usize = 10_000;

/// Topics whose settings changed last. It is only in memory, since no other process changes
/// settings.
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

    /// Logs a change. Call it together with the change. After the commit would be too late, because
    /// its outcome may be unknown. A reader of the new version reads the file after the commit.
    pub fn note(&mut self, topic: &Topic) {
        self.version += 1;
        if self.changes.len() == LOGGED {
            self.changes.pop_front();
        }
        self.changes.push_back(topic.clone());
    }

    /// Returns the topics that changed after version `known`; `None` if the log does not go back to
    /// this version.
    pub fn since(&self, known: u64) -> Option<BTreeSet<Topic>> {
        let missed = usize::try_from(self.version.checked_sub(known)?).ok()?;
        let from = self.changes.len().checked_sub(missed)?;
        Some(self.changes.range(from..).cloned().collect())
    }
}
