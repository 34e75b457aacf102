//! Calls of timers: peek at deadlines, and compare clocks. `promote.rs` acts on the deadlines.

use std::time::{Duration, Instant};

use futures::future::try_join;
use redis::{Pipeline, Value};

use super::{RedisStore, reply::Values};
use crate::{
    job::{Bucket, Topic, UnixMillis},
    store::{Next, Peek, StoreError, StoreResult, StoreResults, clock_watch::Believed},
};

/// Age of the last reading of a clock after which a poll reads it again.
const CLOCK_INTERVAL: Duration = Duration::from_millis(900);

impl RedisStore {
    /// Peeks at buckets whose keys may share a command. An idle store has no deadlines; one command
    /// finds this out for all buckets. The call fails as a whole only if the server fails. A key of
    /// a wrong type affects only its own bucket or topic.
    pub(super) async fn peek_together(
        &self,
        parts: &[(Bucket, Vec<Topic>)],
        deadlines: bool,
    ) -> StoreResult<StoreResults<Peek>> {
        let keys = || parts.iter().map(|(bucket, _)| &self.keys[bucket.index()]);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("MGET").arg(keys().map(|keys| &keys.incarnation).collect::<Vec<_>>());
        if deadlines {
            let deadlines = keys().flat_map(|keys| [&keys.bucket, &keys.ends]);
            pipeline.cmd("EXISTS").arg(deadlines.collect::<Vec<_>>());
        }
        let asked = Instant::now();
        let is_stale =
            |(bucket, _): &(Bucket, _)| self.watch.is_older(bucket.index(), CLOCK_INTERVAL);
        let peek = async {
            match deadlines || parts.iter().any(is_stale) {
                true => self.ask_with_time(parts, pipeline).await,
                false => Ok((self.ask(parts, &pipeline).await?, 0)),
            }
        };
        let questions = try_join(peek, self.count_ready(parts));
        let ((mut answers, mut micros), ready) = questions.await?;
        let mut incarnations = Values::new(next(&mut answers)?)?;
        let found = parts.iter().map(|&(bucket, _)| Ok((bucket, incarnations.maybe_text()?)));
        self.compare_incarnations(&found.collect::<StoreResult<Vec<_>>>()?, asked).await;
        let mut heads = Vec::new();
        if deadlines && Values::one(next(&mut answers)?).number()? > 0 {
            let mut pipeline = Pipeline::new();
            for keys in keys() {
                for deadlines in [&keys.bucket, &keys.ends] {
                    pipeline.cmd("ZRANGE").arg(deadlines).arg(0).arg(0).arg("WITHSCORES");
                }
            }
            let (found, later) = self.ask_with_time(parts, pipeline).await?;
            micros = later;
            heads = found.collect();
        }
        let mut heads = heads.into_iter();
        let mut peeks = Vec::with_capacity(parts.len());
        for ((bucket, _), ready) in parts.iter().zip(ready) {
            let mut first = || heads.next().map_or(Ok(None), |head| first_deadline(head, micros));
            let (delayed, end) = (first(), first());
            let next = delayed.and_then(|delayed| Ok(earlier(delayed, end?)));
            let peek = next.map(|next| Peek { next, ready });
            peeks.push(self.incarnations.refusal(*bucket).map_or(peek, Err));
        }
        Ok(peeks)
    }

    /// Returns the answers of the server that has these buckets, and its time in microseconds.
    async fn ask_with_time(
        &self,
        parts: &[(Bucket, Vec<Topic>)],
        mut pipeline: Pipeline,
    ) -> StoreResult<(Answers, u64)> {
        let given = self.clock.given();
        if given.is_none() {
            pipeline.cmd("TIME");
        }
        let asked = Instant::now();
        let mut answers = self.nodes.pipeline(self.slot_of(parts), &pipeline).await?;
        let micros = match given {
            Some(time) => time.get().saturating_mul(1_000),
            None => {
                let mut time = Values::new(answers.pop().unwrap_or(Ok(Value::Nil))?)?;
                let (seconds, micros): (u64, u64) = (time.parsed()?, time.parsed()?);
                seconds.saturating_mul(1_000_000).saturating_add(micros)
            }
        };
        parts.iter().for_each(|(bucket, _)| self.add_clock_reading(*bucket, micros, asked));
        Ok((answers.into_iter(), micros))
    }

    /// Returns the answers of the server that has these buckets; none if there are no commands.
    pub async fn ask(
        &self,
        parts: &[(Bucket, Vec<Topic>)],
        pipeline: &Pipeline,
    ) -> StoreResult<Answers> {
        let answers = match pipeline.is_empty() {
            true => Vec::new(),
            false => self.nodes.pipeline(self.slot_of(parts), pipeline).await?,
        };
        Ok(answers.into_iter())
    }

    fn slot_of(&self, parts: &[(Bucket, Vec<Topic>)]) -> u16 {
        parts.first().map_or(0, |(first, _)| self.keys[first.index()].slot)
    }

    /// Formats two times for scripts: the latest one that the bucket's clock may show without a
    /// jump, and the one to use after a jump. Empty before the first reading of the clock.
    pub fn believed(&self, bucket: Bucket) -> String {
        let text = |Believed { latest, expected }| format!("{} {}", latest.get(), expected.get());
        self.watch.believed(bucket.index()).map_or_else(String::new, text)
    }

    /// Compares the clock of the bucket's server with this process's clock, unless a test sets the
    /// time.
    pub(super) fn add_clock_reading(&self, bucket: Bucket, micros: u64, asked: Instant) {
        if self.clock.given().is_none() {
            self.watch.add_reading(bucket.index(), micros, asked);
        }
    }
}

/// Answers of the commands of a pipeline.
pub type Answers = std::vec::IntoIter<StoreResult<Value>>;

/// Returns the answer of the next command.
pub fn next(answers: &mut Answers) -> StoreResult<Value> {
    answers.next().unwrap_or_else(|| Err(StoreError::unreadable("a reply with too few values")))
}

/// Reads the first deadline of a bucket's set.
fn first_deadline(head: StoreResult<Value>, micros: u64) -> StoreResult<Option<Next>> {
    let mut head = Values::new(head?)?;
    if head.left() == 0 {
        return Ok(None);
    }
    head.text()?;
    deadline(&head.text()?, micros)
}

/// Returns the earlier of two deadlines.
fn earlier(one: Option<Next>, other: Option<Next>) -> Option<Next> {
    one.into_iter().chain(other).min_by_key(|next| next.at)
}

/// Parses a deadline; an empty text is none. Rounds it up to a whole millisecond, as scripts do:
/// another program may have written any double.
pub(super) fn deadline(text: &str, micros: u64) -> StoreResult<Option<Next>> {
    const LATEST: f64 = 1e14;
    if text.is_empty() {
        return Ok(None);
    }
    let score: f64 = text.parse().map_err(StoreError::unreadable)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1e14")]
    let millis = score.clamp(0.0, LATEST).ceil() as u64;
    Ok(Some(Next::seen(UnixMillis::new(millis), micros)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_any_double_and_never_before_the_score() {
        let at = |text| deadline(text, 0).expect("a number").expect("one").at.get();
        let cases = [
            ("1800000000000", 1_800_000_000_000),
            ("1800000000000.25", 1_800_000_000_001),
            ("-inf", 0),
            ("-5", 0),
            ("inf", 100_000_000_000_000),
            ("1.0000000000000001e+300", 100_000_000_000_000),
            ("nan", 0),
        ];
        for (text, millis) in cases {
            assert_eq!(at(text), millis, "{text}");
        }
        assert!(deadline("soon", 0).is_err());
        assert_eq!(deadline("", 0).expect("none"), None);
    }
}
