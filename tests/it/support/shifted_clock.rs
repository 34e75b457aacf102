//! A wall clock that a test can move. A server or a Redis uses it if it is started with the clock's
//! environment variables.

use std::{fs, path::PathBuf, process::Command};

use serde_json::Value;
use tempfile::TempDir;

/// Clock of the processes that were started with its [variables](Self::variables).
pub struct ShiftedClock {
    dir: TempDir,
}

impl ShiftedClock {
    /// Builds the library for these processes. At first, the clock shows the true time.
    pub fn new() -> Self {
        let clock = Self { dir: tempfile::tempdir().expect("a temporary folder") };
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/shifted_clock.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O2", "-o"]).arg(clock.library());
        let built = compiler.arg(source).arg("-ldl").status().expect("cc is installed");
        assert!(built.success(), "the library is built");
        clock.set(0);
        clock
    }

    /// Sets the difference from the true time, in seconds.
    pub fn set(&self, seconds: i64) {
        // Renames the file into place, so that no process reads a half-written one.
        let new = self.dir.path().join("new");
        fs::write(&new, seconds.to_string()).expect("written");
        fs::rename(new, self.offset()).expect("renamed");
    }

    pub fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        vec![("LD_PRELOAD", self.library()), ("CLOCK_OFFSET_FILE", self.offset())]
    }

    /// Returns the library to preload.
    pub fn library(&self) -> PathBuf {
        self.dir.path().join("shifted_clock.so")
    }

    fn offset(&self) -> PathBuf {
        self.dir.path().join("offset")
    }
}

/// Returns the true time plus `seconds`, in the format of requests.
pub fn in_seconds(seconds: i64) -> String {
    #[expect(clippy::disallowed_methods, reason = "the true time, which no store here has")]
    let now = jiff::Timestamp::now();
    (now + jiff::SignedDuration::from_secs(seconds)).to_string()
}

/// Returns a time of an answer in Unix milliseconds.
pub fn millis(time: &Value) -> i64 {
    let time: jiff::Timestamp = time.as_str().expect("a time").parse().expect("RFC 3339");
    time.as_millisecond()
}

/// Returns the number of seconds from the true time until a time in an answer.
pub fn seconds_until(time: &Value) -> i64 {
    let time: jiff::Timestamp = time.as_str().expect("a time").parse().expect("RFC 3339");
    #[expect(clippy::disallowed_methods, reason = "the true time, which no store here has")]
    time.duration_since(jiff::Timestamp::now()).as_secs()
}
