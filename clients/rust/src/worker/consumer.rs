//! Name of this process, which the server shows with the jobs that it holds.

use std::{env, fs, process};

const MAX_CHARACTERS: usize = 64;

/// Returns the host and the process id.
pub(super) fn name() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| env::var("HOSTNAME").ok())
        .or_else(|| env::var("COMPUTERNAME").ok())
        .unwrap_or_default();
    allowed(&of(host.trim(), process::id()))
}

/// Returns the name with only what the server takes.
pub(super) fn allowed(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._:@/-".contains(c);
    name.chars().take(MAX_CHARACTERS).map(|c| if is_allowed(c) { c } else { '-' }).collect()
}

fn of(host: &str, process: u32) -> String {
    let process = format!(":{process}");
    let host: String = host.chars().take(MAX_CHARACTERS - process.len()).collect();
    if host.is_empty() { format!("unknown{process}") } else { host + &process }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_only_what_the_server_takes() {
        assert_eq!(of("shop-1.example", 42), "shop-1.example:42");
        assert_eq!(allowed("größe 1"), "gr--e-1");
        assert_eq!(of("", 42), "unknown:42");
        assert_eq!(of(&"h".repeat(100), 4_000_000).len(), MAX_CHARACTERS);
    }
}
