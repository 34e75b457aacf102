//! `delay-queue doctor`: what the configured store is, and what to mend.

use std::{collections::BTreeMap, error::Error, fmt::Write as _, path::Path};

use crate::{
    config::{Settings, StoreSettings, StoreUrl},
    job::Buckets,
    store::{
        Clock, Counts, OpenError, Options, Store, TopicPage,
        file::{self, FileStore, Repaired},
        redis::{Ack, Examined, RedisOptions, examine, spread},
    },
};

type StoreResult<T> = Result<T, Box<dyn Error>>;

/// Most topics of a file store that are counted.
const TOPICS: usize = 100_000;

/// Prints what it finds; an error if something must be mended.
pub fn run(settings: &Settings, repair: bool) -> StoreResult<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = match settings.store.location()? {
        StoreUrl::File(dir) => runtime.block_on(on_file(&dir, settings, repair))?,
        StoreUrl::Redis(options) => {
            runtime.block_on(on_redis(&options, &settings.store, repair))?
        }
    };
    print!("{}", report.text);
    match report.problems.len() {
        0 => Ok(()),
        1 => Err("one thing must be mended (see above)".into()),
        many => Err(format!("{many} things must be mended (see above)").into()),
    }
}

/// What is printed, line by line.
#[derive(Default)]
struct Report {
    text: String,
    problems: Vec<String>,
}

impl Report {
    fn line(&mut self, name: &str, what: impl std::fmt::Display) {
        let _ = writeln!(self.text, "{name:<12}{what}"); // a String takes everything
    }

    fn end(mut self, advice: &[String], problems: Vec<String>) -> Self {
        for advice in advice {
            self.line("advice", advice);
        }
        for problem in &problems {
            self.line("to mend", problem);
        }
        if problems.is_empty() {
            self.line("to mend", "nothing");
        }
        self.problems = problems;
        self
    }
}

async fn on_file(dir: &Path, settings: &Settings, repair: bool) -> StoreResult<Report> {
    let mut report = Report::default();
    report.line("store", format_args!("file:{}", dir.display()));
    report.line("ack", "on disk: every answer waits for fsync");
    if !dir.join("jobs.db").exists() {
        report.line("layout", "no store there yet: the first start makes it");
        return Ok(report.end(&[], Vec::new()));
    }
    let options = || -> StoreResult<Options> {
        Ok(Options { buckets: settings.store.buckets()?, clock: Clock::Own })
    };
    let mut opened = examined(dir, options()?).await;
    if repair && !matches!(&opened, Ok((_, wrong)) if wrong.is_empty()) {
        if let Ok((store, _)) = opened {
            store.close().await;
        }
        opened = match file::repair(dir, &options()?) {
            Ok(Repaired { aside, salvaged }) => {
                report.line("repaired", format_args!("{salvaged}"));
                report.line("", format_args!("the files as they were: {}", aside.display()));
                examined(dir, options()?).await
            }
            Err(error) => Err(error),
        };
    }
    let (store, wrong) = match opened {
        Ok(opened) => opened,
        Err(OpenError::InUse { .. }) => {
            report.line("servers", "1 is at work on it, so its jobs are not counted here");
            return Ok(report.end(&[], Vec::new()));
        }
        Err(error) => return Ok(report.end(&[], vec![error.to_string()])),
    };
    let mut sum = Counts::default();
    for bucket in store.buckets().all() {
        let page = TopicPage { prefix: String::new(), after: None, limit: TOPICS };
        for (_, peek) in store.topics(bucket, page).await? {
            sum = sum.plus(peek.counts);
        }
    }
    report.line("buckets", store.buckets().get());
    report.line("jobs", shown(sum));
    store.close().await;
    let advice = match wrong.is_empty() {
        true => Vec::new(),
        false => {
            vec!["`doctor --repair` leaves out what cannot be read, and mends the rest".into()]
        }
    };
    Ok(report.end(&advice, wrong))
}

/// The store, and what is wrong with its file.
async fn examined(dir: &Path, options: Options) -> Result<(FileStore, Vec<String>), OpenError> {
    let store = FileStore::open(dir, options)?;
    let wrong = store.examine().await.unwrap_or_else(|error| vec![error.to_string()]);
    Ok((store, wrong))
}

async fn on_redis(
    options: &RedisOptions,
    settings: &StoreSettings,
    repair: bool,
) -> StoreResult<Report> {
    let mut report = Report::default();
    report.line("store", format_args!("{} (prefix {:?})", options.url, options.prefix));
    let mut found = match examine(options, repair).await {
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
        let buckets =
            format!("{} buckets ({numbers}), {}", server.buckets.len(), shown(server.counts));
        report.line("", buckets);
    }
    let layout = found.layout.as_deref().unwrap_or("no store there yet: the first start makes it");
    report.line("layout", layout);
    let asked = settings.buckets()?.map(Buckets::get);
    if let Some(asked) = asked.filter(|&n| found.layout.is_some() && n != found.buckets) {
        let there = found.buckets;
        found.problems.push(format!("store.buckets is {asked}, and the store has {there}"));
    }
    spread_lines(&mut report, &options.prefix, &found)?;
    let sum = found.servers.iter().fold(Counts::default(), |sum, server| sum.plus(server.counts));
    report.line("jobs", shown(sum));
    report.line("servers", format_args!("{} of delay-queue at work", found.at_work));
    report.line(
        "ack",
        match options.ack {
            Ack::Memory => "memory: Redis has it; its AOF decides what a crash leaves of it",
            Ack::Replica => "replica: one replica has it too (WAIT)",
            Ack::Fsync => "fsync: the master has it on disk",
        },
    );
    let Examined { advice, problems, mended, .. } = found;
    for what in mended {
        report.line("mended", what);
    }
    Ok(report.end(&advice, problems))
}

/// How evenly numbers of buckets spread over masters.
fn spread_lines(report: &mut Report, prefix: &str, found: &Examined) -> StoreResult<()> {
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

fn shown(counts: Counts) -> String {
    let Counts { delayed, ready, reserved, dead } = counts;
    format!("{delayed} delayed, {ready} ready, {reserved} reserved, {dead} dead")
}

/// `0-4, 7` for 0, 1, 2, 3, 4, 7.
fn ranges(numbers: &[usize]) -> String {
    let parts = numbers.chunk_by(|a, b| a + 1 == *b).map(|part| match part {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    parts.collect::<Vec<_>>().join(", ")
}
