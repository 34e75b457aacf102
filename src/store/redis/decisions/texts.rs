//! The texts of a job, as `shared/loaded.lua` puts them together.

use crate::{
    job::{State, Topic},
    store::{
        StoreError,
        redis::{codec::is_finished, reply::Values},
    },
};

/// Stands for the length of a pool record that does not exist.
const NO_RECORD: &str = "-";

/// The records of a job, byte for byte, as `shared/loaded.lua` puts them into one text. A swap
/// compares them with what is stored.
#[derive(Debug)]
pub struct Texts {
    /// A line that is parsed, the header of the pool record, attempt record, history and body.
    all: Vec<u8>,
    /// The beginnings of the parts behind the line.
    parts: [usize; 4],
    /// Whether there is a pool record, even an empty one.
    pub has_record: bool,
    /// The set that has the job; `None` if none has it.
    pub state: Option<State>,
    pub score: String,
    pub topic: Option<Topic>,
}

impl Texts {
    pub fn read(reply: &mut Values) -> Result<Self, StoreError> {
        Self::parse(reply.bytes()?).ok_or_else(|| StoreError::unreadable("a job in another form"))
    }

    fn parse(all: Vec<u8>) -> Option<Self> {
        let line = memchr::memchr(b'\n', &all)?;
        let mut words = str::from_utf8(&all[..line]).ok()?.split(' ');
        let (state, score, topic) = (words.next()?, words.next()?, words.next()?);
        let header = words.next()?;
        let has_record = header != NO_RECORD;
        let header = if has_record { header.parse().ok()? } else { 0 };
        let mut length = || words.next()?.parse::<usize>().ok();
        let (attempt, history) = (length()?, length()?);
        let state = match state {
            "" => None,
            name => Some(State::ALL.into_iter().find(|state| state.name() == name)?),
        };
        let (score, topic) = (score.to_owned(), topic.parse().ok());
        let first = line + 1;
        let parts =
            [first, first + header, first + header + attempt, first + header + attempt + history];
        (parts[3] <= all.len()).then_some(Self { all, parts, has_record, state, score, topic })
    }

    /// Returns the header of the pool record; empty if there is none.
    pub fn header(&self) -> &[u8] {
        &self.all[self.parts[0]..self.parts[1]]
    }

    /// Returns the attempt record; empty if there is none.
    pub fn attempt(&self) -> &[u8] {
        &self.all[self.parts[1]..self.parts[2]]
    }

    pub fn history(&self) -> &[u8] {
        &self.all[self.parts[2]..self.parts[3]]
    }

    /// Returns the pool record with the body, if this was loaded.
    pub fn record(&self) -> Vec<u8> {
        [self.header(), b"\n", &self.all[self.parts[3]..]].concat()
    }

    /// Returns whether there is no record.
    pub fn is_gone(&self) -> bool {
        !self.has_record && self.attempt().is_empty()
    }

    /// Returns whether its record says that the job is finished. The script that promotes leaves no
    /// finished job in the set of reserved ones, so a record there that says so is damaged.
    pub fn is_finished(&self) -> bool {
        is_finished(self.header()) && self.state != Some(State::Reserved)
    }
}
