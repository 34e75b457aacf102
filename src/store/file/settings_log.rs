//! Which topics' settings have changed, so that a reader asks for these alone.

use std::collections::{BTreeSet, VecDeque};

use crate::job::Topic;

/// Changes that are remembered: a reader that missed more reads everything.
const LOGGED: usize = 10_000;

/// The topics whose settings were changed last. No other process changes any: it need not be on disk.
pub struct SettingsLog {
    /// From 1, so that what is on disk is read at first.
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

    /// To be called with the change, not after its commit: its outcome may be unknown. A reader of the
    /// new version finds what the file then has.
    pub fn note(&mut self, topic: &Topic) {
        self.version += 1;
        if self.changes.len() == LOGGED {
            self.changes.pop_front();
        }
        self.changes.push_back(topic.clone());
    }

    /// The topics that have changed since a version; none if that is too long ago.
    pub fn since(&self, known: u64) -> Option<BTreeSet<Topic>> {
        let missed = usize::try_from(self.version.checked_sub(known)?).ok()?;
        let from = self.changes.len().checked_sub(missed)?;
        Some(self.changes.range(from..).cloned().collect())
    }
}
