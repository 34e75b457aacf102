//! Where a list of jobs goes on, as text that clients hand back unread.

use crate::{
    http::problem::Problem,
    job::{Bucket, State, Topic, UnixMillis},
    queue::Position,
    store::Place,
};

/// The cursors of one list. Each begins with a checksum over the list and the place, so that one
/// of another list, or one that was changed, is refused instead of skipping jobs.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    pub topic: &'a Topic,
    pub state: State,
    /// Between which due times, if they are limited.
    pub due: (Option<UnixMillis>, Option<UnixMillis>),
}

impl Cursor<'_> {
    pub fn text(&self, position: &Position) -> String {
        let (at, tie) = match &position.after {
            Some(Place { at, tie }) => (at.get(), tie.as_str()),
            None => (0, ""),
        };
        self.sealed(&format!("{}-{at}-{tie}", position.bucket.index()))
    }

    /// A place with its checksum before it.
    pub fn sealed(&self, place: &str) -> String {
        format!("{}-{place}", self.checksum(place))
    }

    /// `bucket` finds the store's bucket of a number.
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
            let after = (!tie.is_empty()).then_some(Place { at, tie });
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
