//! The secret reservation key, in the second row of `layout`.

use rusqlite::Connection;

use super::Records;
use crate::job::ReservationKey;

/// Prefix of the key's text. Persisted: must stay stable.
const NAME: &str = "reservations=";

/// Parses the key from a text of `layout`; none if the text is another one, or damaged.
pub fn read(text: &str) -> Option<ReservationKey> {
    text.strip_prefix(NAME)?.parse().ok()
}

/// Replaces the key.
pub fn write(connection: &Connection, key: &ReservationKey) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM layout WHERE text LIKE ? || '%'", [NAME])?;
    connection.execute("INSERT INTO layout VALUES (?)", [format!("{NAME}{}", key.reveal())])?;
    Ok(())
}

impl Records {
    /// Returns the key. Generates one for a store of an older version, or whose key is damaged.
    pub fn reservation_key(&self) -> rusqlite::Result<ReservationKey> {
        let mut texts = self.connection.prepare("SELECT text FROM layout")?;
        let mut rows = texts.query(())?;
        while let Some(row) = rows.next()? {
            // A damaged key may not even be text.
            if let Some(key) = row.get_ref(0)?.as_str().ok().and_then(read) {
                return Ok(key);
            }
        }
        drop(rows);
        let key = ReservationKey::generate();
        if let Err(error) = self.keep_reservation_key(&key) {
            // A full disk must not prevent a start; the next start generates another key.
            tracing::warn!(%error, "failed to keep the key of reservations: those of now end with this process");
        }
        Ok(key)
    }

    /// Writes the key to the file. Not within a transaction.
    pub fn keep_reservation_key(&self, key: &ReservationKey) -> rusqlite::Result<()> {
        let transaction = self.connection.unchecked_transaction()?;
        write(&transaction, key)?;
        transaction.commit()
    }
}
