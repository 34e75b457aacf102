//! Names of schedules.

/// The longest name of a schedule, in bytes. The longest id of a job that it puts is the name, a
/// colon, 13 digits, another colon and six characters, which must fit into an id.
pub const MAX_SCHEDULE_NAME: usize = 107;

use crate::name;

name! {
    /// The name of a schedule: `[A-Za-z0-9._-]{1,107}`, except `.` and `..`.
    ScheduleName, b"._-", "A-Z a-z 0-9 . _ -", MAX_SCHEDULE_NAME
}
