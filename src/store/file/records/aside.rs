//! Quarantined jobs: damaged jobs, whose rows are never written again.

use std::collections::HashMap;

use rusqlite::params;

use super::{Done, Records};
use crate::{
    job::{State, UnixMillis},
    store::file::{
        index::{Arrival, Attempt},
        machine::Fate,
    },
};

/// Numbers in the column `gone`. Persisted: must stay stable. The number 1 is final.
const NUMBERS: [(Fate, i64); 3] = [(Fate::Dead, 0), (Fate::Gone, 1), (Fate::Finished, 2)];

fn number(fate: Fate) -> i64 {
    NUMBERS.iter().find(|(known, _)| *known == fate).map_or(0, |(_, number)| *number)
}

/// Returns the fate of a quarantined job. An unknown number is damaged and means `Gone`, so that
/// a finished job never returns.
pub fn fate(number: i64) -> Fate {
    let found = NUMBERS.iter().find(|(_, known)| *known == number);
    found.map_or(Fate::Gone, |(fate, _)| *fate)
}

impl Records {
    pub fn read_quarantined(&self) -> rusqlite::Result<HashMap<u64, Fate>> {
        let mut statement = self.connection.prepare("SELECT serial, gone FROM aside")?;
        let rows = statement.query_map((), |row| Ok((row.get(0)?, fate(row.get(1)?))))?;
        rows.collect()
    }

    /// Quarantines a job. In the file, an earlier fate does not replace a later one.
    pub fn quarantine(&mut self, serial: u64, fate: Fate) -> Done {
        self.run(
            "INSERT INTO aside VALUES (?1, ?2) ON CONFLICT DO UPDATE
             SET gone = iif(1 IN (gone, ?2), 1, max(gone, ?2))",
            params![serial, number(fate)],
        )?;
        self.quarantined.insert(serial, fate);
        Ok(())
    }
}

/// Returns a damaged job as dead or finished: it is kept and shown, but not delivered.
pub fn as_quarantined(arrival: Arrival, is_finished: bool) -> Arrival {
    if is_finished {
        let (state, at) = (State::Finished, UnixMillis::NEVER);
        return Arrival { state, at, attempt: None, ..arrival };
    }
    let attempt = Attempt { number: 1, ..Attempt::none(arrival.at, arrival.policy.ttr) };
    let attempt = Some(arrival.attempt.unwrap_or_else(|| Box::new(attempt)));
    Arrival { state: State::Dead, at: UnixMillis::NEVER, attempt, ..arrival }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fate_has_its_number() {
        for (known, pinned) in NUMBERS {
            assert_eq!((number(known), fate(pinned)), (pinned, known));
        }
        assert_eq!(NUMBERS.map(|(_, number)| number), [0, 1, 2]);
    }
}
