//! Cursors of job lists: opaque texts that clients send back for the next page.

use crate::{
    http::problem::Problem,
    job::{Bucket, State, Topic, UnixMillis},
    queue::Position,
    store::{JobFilter, JobPosition, Period},
};

/// Reader and writer of the cursors of one list. Each cursor begins with a checksum of the list and
/// the position. So a changed cursor, or a cursor of another list, is refused and cannot skip jobs.
#[derive(Clone)]
pub struct Cursor<'a> {
    pub topic: &'a Topic,
    pub state: State,
    pub filter: JobFilter,
}

impl Cursor<'_> {
    pub fn text(&self, position: &Position) -> String {
        let (at, tie) = match &position.after {
            Some(JobPosition { at, tie }) => (at.get(), tie.as_str()),
            None => (0, ""),
        };
        self.sealed(&format!("{}-{at}-{tie}", position.bucket.index()))
    }

    /// Returns the text of a position, preceded by its checksum.
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
        let allowed = "must be the `cursor` of an earlier page of this list";
        parsed().ok_or_else(|| Problem::field("cursor", allowed))
    }

    fn checksum(&self, place: &str) -> String {
        let limit = |at: Option<UnixMillis>| at.map_or_else(String::new, |at| at.get().to_string());
        let Period { from, before } = self.filter.due;
        let due = format!("{}-{}", limit(from), limit(before));
        let mut text = format!("{}/{}/{due}/{place}", self.topic, self.state.name());
        let others = JobFilter { due: Period::ALWAYS, ..self.filter.clone() };
        if !others.is_empty() {
            text = format!("{text}/{others:?}");
        }
        format!("{:08x}", crc32fast::hash(text.as_bytes()))
    }
}
