//! Report of an examination.

use std::collections::BTreeMap;

use super::{Examined, examine, spread};
use crate::{
    job::{Buckets, BucketsError},
    store::{
        Counts, Report, ScheduleReader,
        redis::{Ack, RedisOptions},
        report::shown,
    },
};

/// Examines the servers that `options` name, and mends jobs if `repair` is set.
pub async fn report(
    options: &RedisOptions,
    asked: Option<Buckets>,
    mend: bool,
    read: ScheduleReader,
) -> Result<Report, BucketsError> {
    let mut report = Report::default();
    report.line("store", format_args!("{} (prefix {:?})", options.url, options.prefix));
    let mut found = match examine(options, mend, read).await {
        Ok(found) => found,
        Err(error) => return Ok(report.end(&[], vec![error.to_string()])),
    };
    if found.servers.is_empty() {
        return Ok(report.end(&[], found.problems));
    }
    for server in &found.servers {
        let facts: Vec<String> =
            server.facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
        report.line("server", format_args!("{}: {}", server.address, facts.join(", ")));
        let numbers = ranges(&server.buckets);
        let noun = if server.buckets.len() == 1 { "bucket" } else { "buckets" };
        let counts = shown(server.counts);
        let buckets = format!("{} {noun} ({numbers}), {counts}", server.buckets.len());
        report.line("", buckets);
    }
    let layout =
        found.layout.as_deref().unwrap_or("no store there yet: the first start creates it");
    report.line("layout", layout);
    let asked = asked.map(Buckets::get);
    if let Some(asked) = asked.filter(|&n| found.layout.is_some() && n != found.buckets) {
        let there = found.buckets;
        found.problems.push(format!(
            "store.buckets is {asked}, but the store has {there}: set that number, or remove the setting"
        ));
    }
    spread_lines(&mut report, &options.prefix, &found)?;
    let sum = found.servers.iter().fold(Counts::default(), |sum, server| sum.plus(server.counts));
    report.jobs(sum);
    if let Some(schedules) = found.schedules {
        report.line("schedules", schedules);
    }
    report.line("servers", format_args!("{} of delay-queue running", found.at_work));
    report.line(
        "ack",
        match options.ack {
            Ack::Memory => {
                "memory: the master has it; the AOF settings decide what survives a crash"
            }
            Ack::Replica => "replica: one replica has it too (WAIT)",
            Ack::Fsync => "fsync: the master has it on disk",
        },
    );
    let Examined { advice, problems, mended, .. } = found;
    for what in mended {
        report.line("repaired", what);
    }
    Ok(report.end(&advice, problems))
}

/// Reports how evenly each possible number of buckets is spread over the masters.
fn spread_lines(report: &mut Report, prefix: &str, found: &Examined) -> Result<(), BucketsError> {
    let masters = found.servers.len();
    let counts: BTreeMap<u16, ()> = [16, 64, 256, found.buckets].map(|n| (n, ())).into();
    let mut over: Vec<usize> = vec![3, 6];
    if masters > 1 && !over.contains(&masters) {
        over.push(masters);
    }
    for count in counts.into_keys() {
        let buckets = Buckets::try_from(count)?;
        let parts: Vec<String> = over
            .iter()
            .map(|&masters| {
                let (least, most) = spread(prefix, buckets, masters);
                #[expect(clippy::cast_precision_loss, reason = "at most 1,024 buckets")]
                let share = most as f64 * masters as f64 / f64::from(count);
                format!(
                    "over {masters} masters {least} to {most} (the fullest {share:.2} × its share)"
                )
            })
            .collect();
        let name = if count == found.buckets { "buckets" } else { "" };
        report.line(name, format_args!("{count:>4}: {}", parts.join(", ")));
    }
    Ok(())
}

/// Formats 0, 1, 2, 3, 4, 7 as `0-4, 7`.
fn ranges(numbers: &[usize]) -> String {
    let parts = numbers.chunk_by(|a, b| a + 1 == *b).map(|part| match part {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    parts.collect::<Vec<_>>().join(", ")
}
