//! The secret key of reservations: a second row of `layout`.

use rusqlite::Connection;

use super::Records;
use crate::job::ReservationKey;

/// What its text begins with. Persisted: must stay stable.
const NAME: &str = "reservations=";

/// The key in a text of `layout`; none if that is something else, or damaged.
pub fn read(text: &str) -> Option<ReservationKey> {
    text.strip_prefix(NAME)?.parse().ok()
}

/// Puts a key in the place of the one there is.
pub fn write(connection: &Connection, key: &ReservationKey) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM layout WHERE text LIKE ? || '%'", [NAME])?;
    connection.execute("INSERT INTO layout VALUES (?)", [format!("{NAME}{}", key.reveal())])?;
    Ok(())
}

impl Records {
    /// The key of reservations. A store without one gets it: a store of an older version, or one whose
    /// key is damaged.
    pub fn reservation_key(&self) -> rusqlite::Result<ReservationKey> {
        let mut texts = self.connection.prepare("SELECT text FROM layout")?;
        let mut rows = texts.query(())?;
        while let Some(row) = rows.next()? {
            // A damaged one may be no text any more.
            if let Some(key) = row.get_ref(0)?.as_str().ok().and_then(read) {
                return Ok(key);
            }
        }
        drop(rows);
        let key = ReservationKey::generate();
        if let Err(error) = self.keep_reservation_key(&key) {
            // A full disk must not prevent a start. The next one makes another key then.
            tracing::warn!(%error, "failed to keep the key of reservations: those of now end with this process");
        }
        Ok(key)
    }

    /// Keeps this key. Not within a transaction.
    pub fn keep_reservation_key(&self, key: &ReservationKey) -> rusqlite::Result<()> {
        let transaction = self.connection.unchecked_transaction()?;
        write(&transaction, key)?;
        transaction.commit()
    }
}
