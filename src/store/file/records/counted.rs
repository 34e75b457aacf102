//! The time until which deaths and ended TTRs were counted, in a row of `layout`.

use rusqlite::params;

use super::{Done, Records};
use crate::job::UnixMillis;

/// Prefix of the text. Persisted: must stay stable.
const NAME: &str = "counted=";

impl Records {
    /// Returns the time; `None` if the store has none, as those of older versions, or if it is
    /// damaged.
    pub fn counted(&self) -> rusqlite::Result<Option<UnixMillis>> {
        let mut texts = self.connection.prepare("SELECT text FROM layout")?;
        let mut rows = texts.query(())?;
        while let Some(row) = rows.next()? {
            let text = row.get_ref(0)?.as_str().unwrap_or_default();
            if let Some(millis) = text.strip_prefix(NAME).and_then(|text| text.parse().ok()) {
                return Ok(Some(UnixMillis::new(millis)));
            }
        }
        Ok(None)
    }

    pub fn write_counted(&self, until: UnixMillis) -> Done {
        let text = format!("{NAME}{}", until.get());
        let sql = "UPDATE layout SET text = ?2 WHERE text LIKE ?1 || '%'";
        match self.connection.prepare_cached(sql)?.execute(params![NAME, text])? {
            0 => self.run("INSERT INTO layout VALUES (?)", [text]),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_time_is_read_and_its_text_is_pinned() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (records, _) = Records::open(&dir.path().join("jobs.db"), None).expect("a new store");
        assert_eq!(records.counted(), Ok(None));
        for millis in [7, 1_796_000_000_000, 8] {
            records.write_counted(UnixMillis::new(millis)).expect("written");
            assert_eq!(records.counted(), Ok(Some(UnixMillis::new(millis))));
        }
        let read = "SELECT count(*) FROM layout WHERE text = 'counted=8'";
        let rows: u64 = records.connection.query_row(read, (), |row| row.get(0)).expect("rows");
        let all = "SELECT count(*) FROM layout";
        let all: u64 = records.connection.query_row(all, (), |row| row.get(0)).expect("rows");
        assert_eq!((rows, all), (1, 3));
        records
            .run("UPDATE layout SET text = 'counted=x' WHERE text = 'counted=8'", ())
            .expect("damaged");
        assert_eq!(records.counted(), Ok(None));
    }
}
