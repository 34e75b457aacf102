//! What confirms a write, by which command, and by which answer.

use redis::{Cmd, Value};

/// How long a confirmation may take, in milliseconds. Shorter than any answer may take.
pub const CONFIRM_TIMEOUT_MS: u32 = 2_000;

/// What confirms a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// One replica has it in memory.
    Replica,
    /// The server's own AOF is synced to its disk (Redis 7.2 or newer).
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

    /// How long a confirmation may take when nothing new has been written, in milliseconds. Mostly
    /// it is there already; a replica on a busy machine is asked, and needs a moment; an AOF may be
    /// synced only every second.
    pub fn short_patience(self) -> u32 {
        match self {
            Self::Replica => 1_000,
            Self::Aof => CONFIRM_TIMEOUT_MS,
        }
    }

    /// Whether the answer to the command says that one, at least, has it.
    pub fn is_confirmed(self, answer: &Value) -> bool {
        let count = match (self, answer) {
            (Self::Replica, count) => Some(count),
            (Self::Aof, Value::Array(counts)) => counts.first(),
            (Self::Aof, _) => None,
        };
        matches!(count, Some(Value::Int(1..)))
    }

    /// Who lacks what is not confirmed.
    pub fn who(self) -> &'static str {
        match self {
            Self::Replica => "no replica",
            Self::Aof => "not the disk",
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
