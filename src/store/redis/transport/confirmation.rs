//! Confirmation of writes: the command, and the meaning of its answer.

use redis::{Cmd, Value};

/// Timeout of a confirmation, in milliseconds. Shorter than that of any answer.
pub const CONFIRM_TIMEOUT_MS: u32 = 2_000;

/// Source of a confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// One replica has the write in memory.
    Replica,
    /// The server's own AOF is synced to disk (Redis 7.2 or newer).
    Aof,
}

impl Confirmation {
    pub fn command(self, patience: u32) -> Cmd {
        let mut cmd = match self {
            Self::Replica => redis::cmd("WAIT"),
            Self::Aof => redis::cmd("WAITAOF"),
        };
        cmd.arg(1);
        if self == Self::Aof {
            cmd.arg(0);
        }
        cmd.arg(patience);
        cmd
    }

    /// Returns the timeout of a confirmation of earlier writes, in milliseconds. Usually they are
    /// already confirmed. But a replica on a busy machine must answer first, and an AOF may be
    /// synced only once a second.
    pub fn short_timeout(self) -> u32 {
        match self {
            Self::Replica => 1_000,
            Self::Aof => CONFIRM_TIMEOUT_MS,
        }
    }

    /// Returns whether the answer confirms the write, by at least one replica or by the AOF.
    pub fn is_confirmed(self, answer: &Value) -> bool {
        let count = match (self, answer) {
            (Self::Replica, count) => Some(count),
            (Self::Aof, Value::Array(counts)) => counts.first(),
            (Self::Aof, _) => None,
        };
        matches!(count, Some(Value::Int(1..)))
    }

    /// Returns the subject of a message about a missing confirmation.
    pub fn subject(self) -> &'static str {
        match self {
            Self::Replica => "no replica",
            Self::Aof => "no fsync",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_count_of_one_or_more_confirms() {
        let array = |counts: &[i64]| Value::Array(counts.iter().map(|n| Value::Int(*n)).collect());
        assert!(Confirmation::Replica.is_confirmed(&Value::Int(1)));
        assert!(Confirmation::Replica.is_confirmed(&Value::Int(2)));
        assert!(!Confirmation::Replica.is_confirmed(&Value::Int(0)));
        assert!(!Confirmation::Replica.is_confirmed(&Value::Okay));
        assert!(Confirmation::Aof.is_confirmed(&array(&[1, 0])));
        assert!(!Confirmation::Aof.is_confirmed(&array(&[0, 1])));
        assert!(!Confirmation::Aof.is_confirmed(&Value::Int(1)));
    }
}
