//! The clock of this machine.

use std::time::{Duration, SystemTime};

/// Returns the time since 1970.
#[expect(clippy::disallowed_methods, reason = "a client measures lateness with its own clock")]
pub fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
