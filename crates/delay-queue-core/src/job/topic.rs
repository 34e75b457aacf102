//! Topics, from which consumers pop.

use crate::name;

name! {
    /// A topic: `[A-Za-z0-9._-]{1,128}`, except `.` and `..`.
    Topic, b"._-", "A-Z a-z 0-9 . _ -"
}
