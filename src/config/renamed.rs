//! Former names of settings. The server refuses them and names the current setting.

/// Pairs of former and current keys.
const RENAMED: [(&str, &str); 10] = [
    ("timer.max_sleep", "timer.poll_interval"),
    ("limits.body_bytes", "limits.max_body_bytes"),
    ("server.header_timeout", "limits.header_timeout"),
    ("server.body_timeout", "limits.body_timeout"),
    ("server.write_timeout", "limits.write_timeout"),
    ("store.user", "store.username"),
    ("store.sentinel_user", "store.sentinel_username"),
    ("queue.ttr", "job_defaults.ttr"),
    ("queue.max_attempts", "job_defaults.max_attempts"),
    ("queue.dead_retention", "job_defaults.dead_retention"),
];

/// Returns the current name of the first setting whose former name satisfies `is_given`.
pub fn new_name(is_given: impl Fn(&str) -> bool) -> Option<&'static str> {
    RENAMED.iter().find(|(old, _)| is_given(old)).map(|(_, new)| *new)
}
