//! The secret reservation key, in the second row of `layout`.

use rusqlite::Connection;

use super::Records;
use crate::job::ReservationKey;

/// Prefix of the key's text. Persisted: must stay stable.
const NAME: &str = "reservations=";

/// Parses the key from a text of `layout`; returns `None` if the text is not a key or is damaged.
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
    /// Returns the key. Generates one if the store has none or a damaged one; stores of older
    /// versions have none.
    pub fn reservation_key(&self) -> rusqlite::Result<ReservationKey> {
        let mut texts = self.connection.prepare("SELECT text FROM layout")?;
        let mut rows = texts.query(())?;
        while let Some(row) = rows.next()? {
            // A damaged key may not even be valid UTF-8.
            if let Some(key) = row.get_ref(0)?.as_str().ok().and_then(read) {
                return Ok(key);
            }
        }
        drop(rows);
        let key = ReservationKey::generate();
        if let Err(error) = self.keep_reservation_key(&key) {
            // A full disk must not prevent a start; the next start generates another key.
            tracing::warn!(%error, "failed to save the reservation key: a restart makes all current reservations invalid");
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
