//! The jobs that a run puts: ids, body and due times.

use std::{cell::Cell, fmt::Write, time::Duration};

use super::{
    Failure,
    options::{Ids, Load},
};

/// Number of different ids of [`Ids::Own`]. They scatter like order numbers: the n-th is
/// n × [`SCATTER`] modulo this number. The two numbers have no common factor, so no id repeats.
const ORDERS: u64 = 10_000_000_000;
const SCATTER: u64 = 6_180_339_887;

/// When a job is due.
#[derive(Clone, Copy)]
pub enum Due {
    In(Duration),
    /// Milliseconds since 1970.
    At(u64),
}

/// Generator of the jobs of a run.
pub struct Jobs {
    ids: Ids,
    /// Random number in the ids of this run, so that they differ from those of other runs.
    run: u32,
    /// Number of jobs generated so far.
    generated: Cell<u64>,
    /// Body of each job, as JSON.
    pub body: String,
    /// Delay of jobs in the phases put and flow.
    pub due_in: Duration,
}

impl Jobs {
    pub(crate) fn new(load: &Load, run: u32) -> Self {
        let body = format!("\"{}\"", "x".repeat((load.body as usize).saturating_sub(2)));
        Self { ids: load.ids, run, generated: Cell::new(0), body, due_in: load.due_in }
    }

    /// Appends the next job to a request body.
    pub(crate) fn write(&self, text: &mut String, topic: &str, due: Due) -> Result<(), Failure> {
        write!(text, r#"{{"topic":"{topic}""#)?;
        if self.ids == Ids::Own {
            let order = u128::from(self.generated.get()) * u128::from(SCATTER) % u128::from(ORDERS);
            write!(text, r#","id":"order-{:08x}-{order:010}""#, self.run)?;
        }
        self.generated.set(self.generated.get() + 1);
        match due {
            Due::In(Duration::ZERO) => {}
            Due::In(delay) => write!(text, r#","delay":{}"#, delay.as_secs_f64())?,
            Due::At(time) => write!(text, r#","due_at":{}"#, time)?,
        }
        Ok(write!(text, r#","body":{}}}"#, self.body)?)
    }
}

/// Parses the number at the end of an id, which identifies a job within its run.
pub fn number(id: &str) -> Result<u64, Failure> {
    let number = id.rsplit('-').next().and_then(|number| number.parse().ok());
    number
        .ok_or_else(|| format!("the server returned a job that this run did not put: {id}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_numbers_scatter_and_never_repeat() {
        assert_ne!(SCATTER % 2, 0);
        assert_ne!(SCATTER % 5, 0); // 2 and 5 are the prime factors of ORDERS
        let order = |n: u64| n * SCATTER % ORDERS;
        assert!(order(1).abs_diff(order(2)) > ORDERS / 10);
        assert_eq!(number("order-0000002a-0000000017").ok(), Some(17));
        assert_eq!(number("3693000000000000000").ok(), Some(3_693_000_000_000_000_000));
        assert!(number("order").is_err());
    }
}
