//! Cursors of job lists, which clients send back without reading them.

use crate::{
    http::problem::Problem,
    job::{Bucket, State, Topic, UnixMillis},
    queue::Position,
    store::JobPosition,
};

/// Cursors of one list. Each begins with a checksum of the list and the position, so a changed
/// cursor, or one of another list, is refused instead of skipping jobs.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    pub topic: &'a Topic,
    pub state: State,
    /// Lower and upper bound of the due times, if given.
    pub due: (Option<UnixMillis>, Option<UnixMillis>),
}

impl Cursor<'_> {
    pub fn text(&self, position: &Position) -> String {
        let (at, tie) = match &position.after {
            Some(JobPosition { at, tie }) => (at.get(), tie.as_str()),
            None => (0, ""),
        };
        self.sealed(&format!("{}-{at}-{tie}", position.bucket.index()))
    }

    /// Returns a position preceded by its checksum.
    pub fn sealed(&self, place: &str) -> String {
        format!("{}-{place}", self.checksum(place))
    }

    /// Parses a cursor. `bucket` returns the store's bucket with a number.
    pub fn parse(
        &self,
        text: &str,
        bucket: impl Fn(usize) -> Option<Bucket>,
    ) -> Result<Position, Problem> {
        let parsed = || {
            let (checksum, place) = text.split_once('-')?;
            if checksum != self.checksum(place) {
                return None;
            }
            let mut parts = place.splitn(3, '-');
            let bucket = bucket(parts.next()?.parse().ok()?)?;
            let at = UnixMillis::new(parts.next()?.parse().ok()?);
            let tie = parts.next()?.to_owned();
            let after = (!tie.is_empty()).then_some(JobPosition { at, tie });
            Some(Position { bucket, after })
        };
        let wrong = "must be one that a page of this list gave";
        parsed().ok_or_else(|| Problem::field("cursor", wrong))
    }

    fn checksum(&self, place: &str) -> String {
        let limit = |at: Option<UnixMillis>| at.map_or_else(String::new, |at| at.get().to_string());
        let due = format!("{}-{}", limit(self.due.0), limit(self.due.1));
        let text = format!("{}/{}/{due}/{place}", self.topic, self.state.name());
        format!("{:08x}", crc32fast::hash(text.as_bytes()))
    }
}
