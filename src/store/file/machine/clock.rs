//! Adjusts reservations when the wall clock is set, because TTRs follow the monotonic clock.

use super::{ErrorText, HistoryChange, HistoryStep, Machine, Write};
use crate::{
    job::{State, UnixMillis},
    store::Now,
};

impl Machine {
    /// Moves the ends of all reservations by `by` milliseconds, by which the clock was set.
    pub fn move_reservations(&mut self, by: i64, writes: &mut Vec<Write>) {
        for slot in self.index.reserved() {
            let until = self.index.entry(slot).at.get().saturating_add_signed(by);
            self.index.place(slot, State::Reserved, UnixMillis::new(until));
            self.write_attempt(slot, ErrorText::Keep, HistoryChange::default(), writes);
        }
    }

    /// Restarts the TTR of all reservations.
    pub fn renew_reservations(&mut self, now: Now, writes: &mut Vec<Write>) {
        for slot in self.index.reserved() {
            let until = now.ceil.after(self.attempt(slot).ttr);
            self.index.place(slot, State::Reserved, until);
            let history = HistoryChange::step(HistoryStep::Touch);
            self.write_attempt(slot, ErrorText::Keep, history, writes);
        }
    }
}
