//! Rolls a batch back in memory when the disk refuses it.

use super::Machine;

impl Machine {
    pub fn mark(&mut self) -> usize {
        self.index.mark()
    }

    /// Rolls back all changes since a [`mark`](Self::mark); the whole batch for 0.
    pub fn take_back(&mut self, mark: usize) {
        self.index.take_back(mark);
    }

    /// Ends the batch: its changes can no longer be rolled back.
    pub fn settle(&mut self) {
        self.index.settle();
    }
}
