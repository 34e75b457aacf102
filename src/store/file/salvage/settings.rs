//! Salvages topic settings and access tokens.

use sqlite_salvage::Cell;

use super::{
    Reader,
    rows::{maybe, number, text},
};
use crate::store::{
    TokenChange,
    file::{
        machine::Write,
        records::{schedule_of_row, settings_of_row, token_checksum, topic_checksum},
    },
};

/// Name of the unreadable token that keeps a store closed after all tokens may have been lost.
pub const LOST_TOKENS: &str = "lost-in-repair";

impl Reader {
    pub fn topics(&mut self, writes: &mut Vec<Write>) {
        let (cells, mut lost) = self.rows("topics");
        for cell in cells {
            match topic(&cell) {
                Some(found) => writes.extend(found),
                None => lost += 1,
            }
        }
        self.found.topics = lost;
    }

    /// If all tokens may be lost, adds an unreadable one, since a store without tokens lets every
    /// caller in.
    pub fn tokens(&mut self, writes: &mut Vec<Write>) {
        let (cells, mut lost) = self.rows("tokens");
        let before = writes.len();
        for cell in cells {
            match token(&cell) {
                Some(token) => writes.push(Write::Token(token)),
                None => lost += 1,
            }
        }
        self.found.tokens = lost;
        if lost > 0 && writes.len() == before {
            self.found.are_all_tokens_lost = true;
            let (name, text) = (LOST_TOKENS.to_owned(), "lost in a repair".to_owned());
            writes.push(Write::Token(TokenChange::Create { name, text, is_admin: true }));
        }
    }
}

/// Reads an access token without the time of its last use.
fn token(cell: &Cell) -> Option<TokenChange> {
    let fields = cell.fields()?;
    let [name, content, sum, _] = fields.as_slice() else { return None };
    let (name, text) = (text(name)?, text(content)?);
    let sound = token_checksum(name, text) == number(sum)?;
    let (name, text) = (name.to_owned(), text.to_owned());
    // The first token of a store must have the scope `admin`. `true` passes this check, which was
    // already made when the token was created.
    sound.then_some(TokenChange::Create { name, text, is_admin: true })
}

/// Reads the settings of a topic, or a schedule.
fn topic(cell: &Cell) -> Option<Vec<Write>> {
    let fields = cell.fields()?;
    let [name, paused, defaults, sum] = fields.as_slice() else { return None };
    let (name, paused) = (text(name)?, number(paused)?);
    let defaults = maybe(defaults, || text(defaults))?;
    let sound = topic_checksum(name, paused, defaults) == number(sum)?;
    if !sound {
        return None;
    }
    if let Some((name, new)) = schedule_of_row(name, paused, defaults) {
        return Some(vec![Write::Schedule { name, new: Some(new) }]);
    }
    Some(settings_of_row(name, paused, defaults)?.into_iter().map(Write::Setting).collect())
}
