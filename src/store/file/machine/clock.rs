//! What a wall clock that is set means to reservations: their TTRs count by the process's own.

use super::{ErrorText, Machine, Write};
use crate::{
    job::{State, UnixMillis},
    store::Now,
};

impl Machine {
    /// The clock was set by so many milliseconds: the ends of all reservations move with it.
    pub fn move_reservations(&mut self, by: i64, writes: &mut Vec<Write>) {
        for slot in self.index.reserved() {
            let until = self.index.entry(slot).at.get().saturating_add_signed(by);
            self.index.place(slot, State::Reserved, UnixMillis::new(until));
            self.write_attempt(slot, ErrorText::Keep, writes);
        }
    }

    /// All reservations begin their TTR now.
    pub fn renew_reservations(&mut self, now: Now, writes: &mut Vec<Write>) {
        for slot in self.index.reserved() {
            let until = now.ceil.after(self.attempt(slot).ttr);
            self.index.place(slot, State::Reserved, until);
            self.write_attempt(slot, ErrorText::Keep, writes);
        }
    }
}
