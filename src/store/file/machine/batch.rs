//! Rolls a batch back in memory when the disk refuses it.

use super::Machine;

impl Machine {
    /// Returns the current position in the journal, for a later rollback.
    pub fn mark(&mut self) -> usize {
        self.index.mark()
    }

    /// Rolls back all changes since a [`mark`](Self::mark); the whole batch for 0.
    pub fn roll_back(&mut self, mark: usize) {
        self.index.roll_back(mark);
    }

    /// Ends the batch: its changes can no longer be rolled back.
    pub fn keep_changes(&mut self) {
        self.index.keep_changes();
    }
}
