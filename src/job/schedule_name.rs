//! Names of schedules.

use super::name::name;

/// The longest name of a schedule, in bytes. The id of a job that it puts is the name, a colon and
/// 13 digits, which must fit into an id.
pub const MAX_SCHEDULE_NAME: usize = 114;

name! {
    /// The name of a schedule: `[A-Za-z0-9._-]{1,114}`, except `.` and `..`.
    ScheduleName, b"._-", "A-Z a-z 0-9 . _ -", MAX_SCHEDULE_NAME
}
