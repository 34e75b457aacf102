//! Schedules: a hash of their texts, a sorted set of their times, and one of their names. They are
//! outside of the buckets, in one slot.

use async_trait::async_trait;
use redis::{Cmd, Pipeline};
use sha1_smol::Sha1;

use super::{
    RedisStore, commands::each_reply, keys, puts::add_puts, reply::Values, scripts, timers::next,
};
use crate::{
    job::{Bucket, NewJob, Refusal, ScheduleName, UnixMillis},
    store::{
        DueSchedules, Fired, Firing, MAX_READ_BYTES, MAX_SCHEDULES, NOT_UTF_8, NewSchedule, Parts,
        Placed, Reply, ScheduleChange, ScheduleChanged, SchedulePage, ScheduleStore,
        SchedulesFound, StoreError, StoreResult, StoreResults, StoredSchedule,
    },
};

impl RedisStore {
    /// Puts the jobs of schedules and advances these schedules, by one script if all keys are on
    /// one server. Otherwise each job is put first.
    pub(super) async fn fire(&self, parts: Parts<Vec<Firing>>) -> StoreResults<Vec<Reply<Fired>>> {
        if !self.nodes.is_one() {
            return self.fire_one_after_the_other(parts).await;
        }
        let [all, times, _] = keys::schedules(&self.prefix);
        let fill = |cmd: &mut Cmd, bucket, firings: &Vec<Firing>| {
            cmd.arg(firings.len()).arg(&all).arg(&times);
            for Firing { schedule, new, .. } in firings {
                cmd.arg(schedule.name.as_str()).arg(&schedule.text);
                cmd.arg(&new.text).arg(time_text(new.next_at));
            }
            add_puts(cmd, self, bucket, &jobs_of(firings));
        };
        let read = |reply: &mut Values, firings: &Vec<Firing>| match reply.left() {
            0 => Ok(firings.iter().map(|_| Ok(Fired::Stale(None))).collect()),
            _ => Ok(each_reply(Values::placed)(reply, firings)?.into_iter().map(fired).collect()),
        };
        self.run_each(&self.scripts.fire, &parts, fill, read).await
    }

    async fn fire_one_after_the_other(
        &self,
        parts: Parts<Vec<Firing>>,
    ) -> StoreResults<Vec<Reply<Fired>>> {
        let jobs: Vec<(Bucket, Vec<NewJob>)> =
            parts.iter().map(|(bucket, firings)| (*bucket, jobs_of(firings))).collect();
        let put = self.put_new(jobs).await;
        let advance = parts.into_iter().zip(put).map(async |((_, firings), placed)| {
            let placed: Vec<Reply<Placed>> = placed?;
            let firings = firings.into_iter().zip(&placed).filter(|(_, placed)| placed.is_ok());
            let changes = firings.map(|(Firing { schedule, new, .. }, _)| {
                let StoredSchedule { name, text } = schedule;
                ScheduleChange { name, old: Some(text), new: Some(new) }
            });
            let changes: Vec<ScheduleChange> = changes.collect();
            let changed = match changes.is_empty() {
                true => Vec::new(),
                // The jobs are in the store, so a failure is not without effect.
                false => self.change_schedules(changes).await.map_err(StoreError::unknown)?,
            };
            let mut changed = changed.into_iter();
            let mut advanced = |placed: Placed| match changed.next() {
                Some(ScheduleChanged::Done) => Fired::Placed(placed),
                _ => Fired::Stale(Some(placed)),
            };
            let each = placed.into_iter().map(|placed| match placed {
                Ok(placed) => Ok(advanced(placed)),
                refused => fired(refused),
            });
            Ok(each.collect())
        });
        futures::future::join_all(advance).await
    }

    /// Reads schedules in order, up to the one whose text reaches [`MAX_READ_BYTES`]. `None` stands
    /// for a schedule that does not exist.
    async fn read(&self, names: &[ScheduleName]) -> StoreResult<Vec<Option<StoredSchedule>>> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let [all, ..] = keys::schedules(&self.prefix);
        let eval = |_| {
            let mut eval = redis::cmd("EVAL");
            eval.arg(scripts::SCHEDULE_TEXTS).arg(1).arg(&all).arg(MAX_READ_BYTES);
            for name in names {
                eval.arg(name.as_str());
            }
            eval
        };
        let texts = self.nodes.script(keys::slot(&all), None, eval).await?;
        let texts: Vec<Option<Vec<u8>>> =
            redis::from_redis_value(texts).map_err(StoreError::unreadable)?;
        let stored = |(name, bytes): (&ScheduleName, Option<Vec<u8>>)| {
            Some(StoredSchedule { name: name.clone(), text: text_of(bytes?) })
        };
        Ok(names.iter().zip(texts).map(stored).collect())
    }
}

#[async_trait]
impl ScheduleStore for RedisStore {
    async fn due_schedules(&self, limit: usize) -> StoreResult<DueSchedules> {
        let [_, times, _] = keys::schedules(&self.prefix);
        let mut pipeline = Pipeline::with_capacity(2);
        // One more, whose time is the next.
        pipeline.cmd("ZRANGE").arg(&times).arg(0).arg(limit).arg("WITHSCORES");
        pipeline.cmd("TIME");
        let mut answers = self.nodes.pipeline(keys::slot(&times), &pipeline).await?.into_iter();
        let mut first = Values::new(next(&mut answers)?)?;
        let now = self.believed_now(self.time(next(&mut answers)?)?).floor;
        let (mut names, mut at) = (Vec::new(), Vec::new());
        while first.left() > 0 {
            let (name, time) = (first.text()?, time(&first.text()?)?);
            // An earlier version allowed longer names. One must not keep the others from firing.
            let Ok(name) = name.parse() else { continue };
            at.push(time);
            if time > now || names.len() == limit {
                break;
            }
            names.push(name);
        }
        let read = self.read(&names).await?;
        let next_at = at.get(read.len()).copied();
        let due = read.into_iter().flatten().collect();
        Ok(DueSchedules { now, due, next_at, steady_since: self.watch.steady_since() })
    }

    async fn schedule(&self, name: ScheduleName) -> StoreResult<Option<StoredSchedule>> {
        let [all, ..] = keys::schedules(&self.prefix);
        let read = redis::cmd("HGET").arg(&all).arg(name.as_str()).take();
        let text = self.nodes.command(keys::slot(&all), &read).await?;
        let bytes: Option<Vec<u8>> =
            redis::from_redis_value(text).map_err(StoreError::unreadable)?;
        Ok(bytes.map(|bytes| StoredSchedule { name, text: text_of(bytes) }))
    }

    async fn schedules(&self, page: SchedulePage) -> StoreResult<SchedulesFound> {
        let [_, _, names] = keys::schedules(&self.prefix);
        let SchedulePage { prefix, after, limit } = page;
        // No character of a name is greater than `z`.
        let end = format!("({prefix}{{");
        let begin = match after {
            Some(after) if *after.as_str() >= *prefix => format!("({after}"),
            _ => format!("[{prefix}"),
        };
        let mut range = redis::cmd("ZRANGE");
        // One more, which tells whether others follow.
        range.arg(&names).arg(begin).arg(end).arg("BYLEX").arg("LIMIT").arg(0).arg(limit + 1);
        let mut found = Values::new(self.nodes.command(keys::slot(&names), &range).await?)?;
        let mut page = Vec::with_capacity(found.left());
        while found.left() > 0 {
            page.extend(found.text()?.parse::<ScheduleName>());
        }
        let mut more_after = SchedulesFound::cut(&mut page, limit);
        let read = self.read(&page).await?;
        if read.len() < page.len() {
            more_after = read.len().checked_sub(1).map(|last| page[last].clone());
        }
        Ok(SchedulesFound { schedules: read.into_iter().flatten().collect(), more_after })
    }

    async fn change_schedules(
        &self,
        changes: Vec<ScheduleChange>,
    ) -> StoreResult<Vec<ScheduleChanged>> {
        self.incarnations.check()?;
        let keys = keys::schedules(&self.prefix);
        let eval = |_| {
            let mut eval = redis::cmd("EVAL");
            eval.arg(scripts::CHANGE_SCHEDULES).arg(keys.len()).arg(&keys);
            eval.arg(MAX_SCHEDULES).arg(NOT_UTF_8);
            for ScheduleChange { name, old, new } in &changes {
                eval.arg(name.as_str()).arg(old.as_deref().unwrap_or_default());
                let (text, next_at) = match new {
                    Some(NewSchedule { text, next_at }) => (&text[..], *next_at),
                    None => ("", None),
                };
                eval.arg(text).arg(time_text(next_at));
            }
            eval
        };
        let confirm = keys::confirm_schedules(&self.prefix);
        let done = self.nodes.script(keys::slot(&keys[0]), Some(&confirm), eval).await?;
        let done: Vec<i64> = redis::from_redis_value(done).map_err(StoreError::unreadable)?;
        let changed = |code| match code {
            0 => Ok(ScheduleChanged::Stale),
            1 => Ok(ScheduleChanged::Done),
            2 => Ok(ScheduleChanged::TooMany),
            other => Err(StoreError::unreadable(format!("change_schedules answered {other}"))),
        };
        done.into_iter().map(changed).collect()
    }
}

/// Returns a stored text, or the text that stands for it if it is not UTF-8: such a text, which
/// another program has written, must hide no other schedule. It has the SHA-1 of the bytes, by
/// which `change_schedules.lua` knows what to replace or remove.
fn text_of(bytes: Vec<u8>) -> String {
    let stand_in = |bytes: &[u8]| format!("{NOT_UTF_8}{}", Sha1::from(bytes).digest());
    String::from_utf8(bytes).unwrap_or_else(|error| stand_in(error.as_bytes()))
}

fn jobs_of(firings: &[Firing]) -> Vec<NewJob> {
    firings.iter().map(|firing| firing.job.clone()).collect()
}

fn fired(placed: Reply<Placed>) -> Reply<Fired> {
    match placed {
        Ok(placed) => Ok(Fired::Placed(placed)),
        Err(Refusal::Exists(_)) => Ok(Fired::Taken),
        Err(refusal) => Err(refusal),
    }
}

fn time_text(at: Option<UnixMillis>) -> String {
    at.map_or_else(String::new, |at| at.get().to_string())
}

/// Parses the time of a schedule; another program may have written any double.
fn time(score: &str) -> StoreResult<UnixMillis> {
    let score: f64 = score.parse().map_err(StoreError::unreadable)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1e14")]
    Ok(UnixMillis::new(score.clamp(0.0, 1e14) as u64))
}
