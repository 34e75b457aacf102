//! Reads the whole file and returns its faults; an empty list if it is sound.

use super::Records;

impl Records {
    pub fn examine(&self) -> rusqlite::Result<Vec<String>> {
        let mut statement = self.connection.prepare("PRAGMA quick_check(5)")?;
        let lines: rusqlite::Result<Vec<String>> =
            statement.query_map((), |row| row.get(0))?.collect();
        let mut wrong = lines?;
        wrong.retain(|line| line != "ok");
        match self.damaged_bodies() {
            Ok(0) => {}
            Ok(bodies) => wrong.push(format!("{bodies} jobs have a damaged body")),
            Err(cause) => wrong.push(format!("not all bodies can be read: {cause}")),
        }
        if !self.damaged.is_empty() {
            let damaged = self.damaged.len();
            wrong.push(format!("{damaged} jobs are damaged; they are kept as dead or finished"));
        }
        let schedules = self.load_schedules(|_, _| {})?;
        wrong.extend(schedules.iter().map(|cause| format!("a schedule is damaged: {cause}")));
        Ok(wrong)
    }

    fn damaged_bodies(&self) -> rusqlite::Result<u64> {
        let mut bodies = self.connection.prepare("SELECT serial, body_checksum, body FROM pool")?;
        let (mut rows, mut damaged) = (bodies.query(())?, 0);
        while let Some(row) = rows.next()? {
            let known = row.get::<_, i64>(0)?.cast_unsigned();
            if self.quarantined.contains_key(&known) || self.damaged.contains_key(&known) {
                continue;
            }
            let sound = row
                .get_ref(2)?
                .as_blob()
                .is_ok_and(|body| row.get::<_, i64>(1) == Ok(i64::from(crc32fast::hash(body))));
            damaged += u64::from(!sound);
        }
        Ok(damaged)
    }
}
