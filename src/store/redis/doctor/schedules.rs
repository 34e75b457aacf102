//! Examination of schedules: whether each is in the list of names, and whether the timer knows it.
//!
//! A scan in pages finds suspects while servers continue to change schedules. A script then
//! examines the suspects again, atomically.

use redis::{Cmd, FromRedisValue, Pipeline, RedisError, aio::MultiplexedConnection};

use super::{super::scripts, contents::Findings};
use crate::{
    job::{NameError, ScheduleName, UnixMillis},
    store::{ScheduleReader, StoredSchedule, redis::keys, report::unreadable_schedule},
};

/// Approximate number of schedules per page of a scan. Each may have a long text.
const PAGE: usize = 50;
/// Problems of schedules, in the order of the codes that `mend_schedules.lua` returns.
const OF_SCHEDULES: [&str; 3] = [
    "schedules are missing from the list of names",
    "schedules are unknown to the timer, or have too late a time there",
    "names of schedules have no schedule",
];

/// Examination of all schedules.
pub struct Schedules<'a> {
    pub connection: &'a mut MultiplexedConnection,
    pub prefix: &'a str,
    pub read: ScheduleReader,
    pub mend: bool,
}

/// A name or text, which another program may have written: it may not be UTF-8.
type Bytes = Vec<u8>;
/// A schedule whose entries must be compared: name, text, and when a server must look at it.
type Suspect = (Bytes, Bytes, Option<UnixMillis>);

impl Schedules<'_> {
    /// Counts and examines all schedules.
    pub async fn examine(&mut self, findings: &mut Findings) -> Result<(), RedisError> {
        let [texts, times, names] = keys::schedules(self.prefix);
        let restore = "rename it, and restore a backup";
        let remake = "rename it, then run doctor --repair";
        let all = [
            ("HLEN", &texts, "hash", restore),
            ("ZCARD", &times, "sorted set", remake),
            ("ZCARD", &names, "sorted set", remake),
        ];
        for (ask, key, kind, how) in all {
            match self.ask::<u64>(redis::cmd(ask).arg(key)).await {
                Ok(count) if ask == "HLEN" => findings.schedules = Some(count),
                Ok(_) => {}
                Err(cause) if cause.code() == Some("WRONGTYPE") => {
                    findings.leave(format!("{key} must be a {kind}: {how}"));
                    return Ok(());
                }
                Err(cause) => return Err(cause),
            }
        }
        self.texts(&texts, findings).await?;
        for key in [times, names] {
            self.entries(&key, &texts, findings).await?;
        }
        Ok(())
    }

    /// Scans the texts, and compares them with their entries.
    async fn texts(&mut self, texts: &str, findings: &mut Findings) -> Result<(), RedisError> {
        let [_, times, names] = keys::schedules(self.prefix);
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(texts).arg(cursor).arg("COUNT").arg(PAGE);
            let (next, page): (u64, Vec<(Bytes, Bytes)>) = self.ask(&scan).await?;
            let mut entries = Pipeline::with_capacity(2 * page.len());
            for (name, _) in &page {
                entries.cmd("ZSCORE").arg(&times).arg(name);
                entries.cmd("ZSCORE").arg(&names).arg(name);
            }
            let entries: Vec<Option<f64>> = self.ask_all(&entries).await?;
            let mut suspects = Vec::new();
            for ((name, text), entry) in page.into_iter().zip(entries.chunks(2)) {
                let latest = self.latest(&name, &text).unwrap_or_else(|problem| {
                    findings.leave(problem);
                    None
                });
                #[expect(clippy::cast_precision_loss, reason = "times have at most 14 digits")]
                let is_known = match (latest, entry[0]) {
                    (Some(latest), Some(time)) => time <= latest.get() as f64,
                    (Some(_), None) => false,
                    (None, _) => true,
                };
                if !is_known || entry[1].is_none() {
                    suspects.push((name, text, latest));
                }
            }
            self.run(&suspects, findings).await?;
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Returns when a server must look at a schedule, or that it cannot be read.
    fn latest(&self, name: &[u8], text: &[u8]) -> Result<Option<UnixMillis>, String> {
        let shown = String::from_utf8_lossy(name);
        let problem = |reason: &str| unreadable_schedule(&shown, reason);
        let parsed: ScheduleName =
            shown.parse().map_err(|error: NameError| problem(&error.to_string()))?;
        let text = str::from_utf8(text).map_err(|error| problem(&error.to_string()))?;
        let stored = StoredSchedule { name: parsed, text: text.to_owned() };
        (self.read)(&stored).map_err(|reason| problem(&reason))
    }

    /// Scans the entries of a sorted set for names without a text.
    async fn entries(
        &mut self,
        key: &str,
        texts: &str,
        findings: &mut Findings,
    ) -> Result<(), RedisError> {
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("ZSCAN");
            scan.arg(key).arg(cursor).arg("COUNT").arg(PAGE);
            let (next, page): (u64, Vec<(Bytes, f64)>) = self.ask(&scan).await?;
            let mut exist = Pipeline::with_capacity(page.len());
            for (name, _) in &page {
                exist.cmd("HEXISTS").arg(texts).arg(name);
            }
            let exist: Vec<bool> = self.ask_all(&exist).await?;
            let lost = page.into_iter().zip(exist).filter(|(_, exists)| !exists);
            let lost: Vec<Suspect> =
                lost.map(|((name, _), _)| (name, Bytes::new(), None)).collect();
            self.run(&lost, findings).await?;
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    async fn run(
        &mut self,
        suspects: &[Suspect],
        findings: &mut Findings,
    ) -> Result<(), RedisError> {
        if suspects.is_empty() {
            return Ok(());
        }
        let keys = keys::schedules(self.prefix);
        let mut eval = redis::cmd("EVAL");
        eval.arg(scripts::MEND_SCHEDULES).arg(keys.len()).arg(&keys);
        eval.arg(if self.mend { "1" } else { "" });
        for (name, text, latest) in suspects {
            let latest = latest.map_or_else(String::new, |at| at.get().to_string());
            eval.arg(name).arg(text).arg(latest);
        }
        let codes: Vec<usize> = self.ask(&eval).await?;
        findings.add(&OF_SCHEDULES, &codes);
        Ok(())
    }

    /// Sends a pipeline, which may have no commands.
    async fn ask_all<T: FromRedisValue>(
        &mut self,
        pipeline: &Pipeline,
    ) -> Result<Vec<T>, RedisError> {
        match pipeline.is_empty() {
            true => Ok(Vec::new()),
            false => pipeline.query_async(self.connection).await,
        }
    }

    async fn ask<T: FromRedisValue>(&mut self, cmd: &Cmd) -> Result<T, RedisError> {
        cmd.query_async(self.connection).await
    }
}
