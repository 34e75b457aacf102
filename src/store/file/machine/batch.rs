//! What a batch has done, as long as the disk may refuse it.

use super::Machine;

impl Machine {
    /// A point in the batch, for [`take_back`](Self::take_back).
    pub fn mark(&mut self) -> usize {
        self.index.mark()
    }

    /// Takes back what was done since the mark; all of the batch since 0.
    pub fn take_back(&mut self, mark: usize) {
        self.index.take_back(mark);
    }

    /// What was done stays. Ends the batch.
    pub fn settle(&mut self) {
        self.index.settle();
    }
}
