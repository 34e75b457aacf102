//! `delay-queue import`: checks the whole file before it writes any of its jobs to the store.

use std::{
    error::Error,
    fs::File,
    io::{self, BufReader, Seek},
    path::Path,
};

use xxhash_rust::xxh3::xxh3_128;

use super::{
    line::TopicLine,
    progress::Progress,
    reader::{Item, Reader},
    schedule_line::ScheduleLine,
    servers::NoServers,
    tally::Tally,
};
use crate::{
    cli::output,
    config::Settings,
    job::{
        Bucket, Buckets, Job, JobId, Refusal, Schedule, Setting, SettingsChanges, TopicSettings,
    },
    server::open_store,
    store::{MAX_SCHEDULES, ScheduleChange, ScheduleChanged, SettingCondition, Store, verb},
};

type StoreResult<T> = Result<T, Box<dyn Error>>;

/// Approximate maximum size of one batch, in bytes.
const BATCH_BYTES: usize = 8 << 20;
/// Approximate maximum size of all unfinished batches together, in bytes.
const HELD_BYTES: usize = 64 << 20;
/// Approximate memory of a job in addition to its body, in bytes.
const JOB_BYTES: usize = 512;

/// Maximum number of schedules of one batch.
const SCHEDULES_PER_BATCH: usize = 100;

/// Contents of the file: the number of jobs by topic and state, the number of schedules, and the
/// settings of topics.
struct Content {
    tally: Tally,
    schedules: u64,
    topics: Vec<TopicLine>,
}

pub async fn run(file: &Path, settings: &Settings) -> StoreResult<()> {
    let shown = match super::is_standard_stream(file) {
        true => "standard input".into(),
        false => file.display().to_string(),
    };
    let content = Source::new(file).and_then(|source| Ok((check(&source)?, source)));
    let (content, source) = content
        .map_err(|error| format!("failed to import {shown}: {error}; nothing was written"))?;
    let store = open_store(settings).await?;
    let result = async {
        let no_servers = NoServers::wait(&*store).await?;
        import_checked(&*store, &source, &content, &no_servers).await
    };
    let result = result.await;
    store.close().await;
    result.map_err(|error| format!("failed to import {shown}: {error}").into())
}

/// A file that can be read twice.
struct Source(File);

impl Source {
    /// Opens the file; copies standard input to an unnamed temporary file.
    fn new(file: &Path) -> StoreResult<Self> {
        if !super::is_standard_stream(file) {
            return Ok(Self(File::open(file)?));
        }
        let copied = tempfile::tempfile().and_then(|mut copy| {
            io::copy(&mut io::stdin().lock(), &mut copy)?;
            Ok(copy)
        });
        let dir = std::env::temp_dir();
        let failed = |cause| format!("it could not be copied to {}: {cause}", dir.display());
        Ok(Self(copied.map_err(failed)?))
    }

    fn open(&self) -> StoreResult<Reader<BufReader<&File>>> {
        (&self.0).rewind()?;
        Ok(Reader::open(BufReader::with_capacity(1 << 20, &self.0))?)
    }
}

fn check(source: &Source) -> StoreResult<Content> {
    let mut reader = source.open()?;
    let mut content = Content { tally: Tally::default(), schedules: 0, topics: Vec::new() };
    let (mut ids, mut progress) = (Ids::default(), Progress::new("checked", None));
    while let Some(item) = reader.next()? {
        match item {
            Item::Job(job) => {
                ids.add(&job.id, reader.line());
                content.tally.add(&job.topic, job.state);
                progress.report(reader.sums().jobs);
            }
            Item::Topic(topic) => content.topics.push(*topic),
            Item::Schedule(_) => content.schedules += 1,
            Item::Section(_) | Item::Total => {}
        }
    }
    match ids.first_duplicate() {
        Some((first, second)) => {
            Err(format!("line {second}: its id is already in line {first}").into())
        }
        None => Ok(content),
    }
}

/// The ids of a file, to find duplicates. Each entry has 11 bytes of the id's hash and 5 bytes of
/// its line number. With a billion ids, the chance of a collision is one in 10^8.
#[derive(Default)]
struct Ids(Vec<u128>);

impl Ids {
    const LINE_BITS: u32 = 40;

    fn add(&mut self, id: &JobId, line: u64) {
        let hash = xxh3_128(id.as_str().as_bytes()) >> Self::LINE_BITS << Self::LINE_BITS;
        self.0.push(hash | u128::from(line));
    }

    /// Returns the lines of two jobs with the same id.
    fn first_duplicate(mut self) -> Option<(u128, u128)> {
        self.0.sort_unstable();
        let same = |pair: &&[u128]| pair[0] >> Self::LINE_BITS == pair[1] >> Self::LINE_BITS;
        let line = |entry: u128| entry & ((1 << Self::LINE_BITS) - 1);
        self.0.windows(2).find(same).map(|pair| (line(pair[0]), line(pair[1])))
    }
}

/// Imports a checked file and compares the store with it.
async fn import_checked(
    store: &dyn Store,
    source: &Source,
    content: &Content,
    no_servers: &NoServers,
) -> StoreResult<()> {
    let before = Tally::of_store(store).await?;
    let with_advice =
        |error: Box<dyn Error>| format!("{error}. Run the same import again to continue");
    let imported = restore_all(store, source, content).await.map_err(with_advice)?;
    let (all, topics) = (content.tally.jobs(), content.topics.len());
    output::line(format_args!(
        "imported {} jobs; {} of {all} existed already; applied the settings of {topics} topics; \
         imported {} schedules; {} of {} existed already",
        imported.created,
        imported.existing,
        imported.schedules,
        content.schedules - imported.schedules,
        content.schedules
    ))?;
    if no_servers.has_server_started(store).await? {
        return Err(STARTED.into());
    }
    compare(&before, &Tally::of_store(store).await?, &imported, content)
}

/// Counts of the jobs that were restored, of the jobs that existed already, and of the schedules
/// that were created.
#[derive(Default)]
struct Imported {
    created: u64,
    existing: u64,
    schedules: u64,
}

async fn restore_all(
    store: &dyn Store,
    source: &Source,
    content: &Content,
) -> StoreResult<Imported> {
    // Pauses come first, so that no server delivers jobs of paused topics.
    set_topics(store, &content.topics).await?;
    let mut reader = source.open()?;
    let mut progress = Progress::new("imported", Some(content.tally.jobs()));
    let (mut batches, mut imported) =
        (Batches::new(store.buckets(), store.batch_limit()), Imported::default());
    let mut schedules = Vec::new();
    while let Some(item) = reader.next()? {
        match item {
            Item::Job(job) => {
                for (bucket, jobs) in batches.add(*job) {
                    restore(store, bucket, jobs, &mut imported).await?;
                }
                progress.report(imported.created + imported.existing);
            }
            Item::Schedule(schedule) => {
                schedules.push(change_to(*schedule)?);
                if schedules.len() == SCHEDULES_PER_BATCH {
                    imported.schedules += create(store, std::mem::take(&mut schedules)).await?;
                }
            }
            Item::Section(_) | Item::Topic(_) | Item::Total => {}
        }
    }
    for (bucket, jobs) in batches.all() {
        restore(store, bucket, jobs, &mut imported).await?;
    }
    imported.schedules += create(store, schedules).await?;
    Ok(imported)
}

/// Pauses topics, and sets defaults and pushes. Settings that the file does not have remain. A
/// paused topic stays paused, even if it was not paused when it was exported. A push in the store
/// stays too, since it may have secrets, which the file lacks.
async fn set_topics(store: &dyn Store, topics: &[TopicLine]) -> StoreResult<()> {
    let settings = match store.settings(0).await? {
        Some(SettingsChanges::All(settings)) => settings,
        Some(SettingsChanges::Changed { .. }) | None => TopicSettings::default(),
    };
    for TopicLine { topic, paused, paused_until, defaults, push } in topics {
        if *paused && !settings.paused.contains_key(topic) {
            match *paused_until {
                Some(until) => drop(store.pause_until(topic.clone(), Schedule::At(until)).await?),
                None => store.set_paused(topic.clone(), true).await?,
            }
        }
        if defaults.is_some() {
            let is_set = store.set_defaults(topic.clone(), defaults.clone()).await?;
            if !is_set {
                return Err(format!(
                    "the `dead_to` of the topic {topic:?} leads back to it, by the settings of the \
                     store: remove one of them"
                )
                .into());
            }
        }
        if let Some(push) = push.as_ref().filter(|_| !settings.pushes.contains_key(topic)) {
            let setting = Setting::push(topic.clone(), Some(&push.exported()));
            store.change_setting(setting, SettingCondition::Always).await?;
        }
    }
    Ok(())
}

/// Returns the change that creates a schedule, which continues with its next instant.
fn change_to(line: ScheduleLine) -> StoreResult<ScheduleChange> {
    let ScheduleLine { name, record } = line;
    Ok(ScheduleChange { name, old: None, new: Some(record.stored()?) })
}

/// Creates schedules; returns how many. An existing schedule stays as it is, since it may have put
/// jobs after the export.
async fn create(store: &dyn Store, changes: Vec<ScheduleChange>) -> StoreResult<u64> {
    let changed = match changes.is_empty() {
        true => Vec::new(),
        false => store.change_schedules(changes).await?,
    };
    if changed.contains(&ScheduleChanged::TooMany) {
        return Err(format!(
            "the store has {MAX_SCHEDULES} schedules, which is the limit: delete some"
        )
        .into());
    }
    Ok(changed.iter().filter(|changed| **changed == ScheduleChanged::Done).count() as u64)
}

async fn restore(
    store: &dyn Store,
    bucket: Bucket,
    jobs: Vec<Job>,
    imported: &mut Imported,
) -> StoreResult<()> {
    for reply in store.call_in::<verb::Restore>(bucket, jobs).await? {
        match reply {
            Ok(()) => imported.created += 1,
            Err(Refusal::Exists(_)) => imported.existing += 1,
            Err(refusal) => return Err(format!("the store refuses a job: {refusal:?}").into()),
        }
    }
    Ok(())
}

/// Jobs to be restored, grouped by their bucket in this store.
struct Batches {
    buckets: Buckets,
    /// Maximum number of jobs of one batch.
    limit: usize,
    /// The jobs of each bucket, with their size in bytes.
    by_bucket: Vec<(Vec<Job>, usize)>,
    /// The size of all jobs, in bytes.
    bytes: usize,
}

impl Batches {
    fn new(buckets: Buckets, limit: usize) -> Self {
        let by_bucket = buckets.all().map(|_| Default::default()).collect();
        Self { buckets, limit, by_bucket, bytes: 0 }
    }

    /// Adds a job; returns the batches that must be restored now, in this order.
    fn add(&mut self, job: Job) -> Vec<(Bucket, Vec<Job>)> {
        let bucket = self.buckets.of(&job.id);
        let (jobs, bytes) = &mut self.by_bucket[bucket.index()];
        let size = job.content_bytes() + JOB_BYTES;
        jobs.push(job);
        *bytes += size;
        self.bytes += size;
        if jobs.len() >= self.limit || *bytes >= BATCH_BYTES {
            self.bytes -= std::mem::take(bytes);
            return vec![(bucket, std::mem::take(jobs))];
        }
        if self.bytes >= HELD_BYTES { self.all() } else { Vec::new() }
    }

    fn all(&mut self) -> Vec<(Bucket, Vec<Job>)> {
        self.bytes = 0;
        let batches = self.by_bucket.iter_mut().map(|batch| std::mem::take(batch).0);
        self.buckets.all().zip(batches).filter(|(_, jobs)| !jobs.is_empty()).collect()
    }
}

/// Checks that the number of jobs in the store has grown by the number of restored jobs. If the
/// store has only jobs of the file, also compares the counts of each topic and state.
fn compare(
    before: &Tally,
    after: &Tally,
    imported: &Imported,
    content: &Content,
) -> StoreResult<()> {
    let expected = before.jobs() + imported.created;
    if after.jobs() != expected {
        let actual = after.jobs();
        return Err(format!("the store has {actual} jobs instead of {expected}{SERVERS}").into());
    }
    if before.jobs() > imported.existing {
        let others = before.jobs() - imported.existing;
        let checked = format_args!(
            "checked: the store has all jobs of the file, and {others} other jobs as before"
        );
        return Ok(output::line(checked)?);
    }
    // Jobs restored by an earlier import may have become due since then.
    let comparable = |tally: &Tally| {
        if before.jobs() > 0 { tally.with_delayed_as_ready() } else { tally.clone() }
    };
    let (in_store, in_file) = (comparable(after), comparable(&content.tally));
    if let Some((topic, in_store, in_file)) = in_store.first_difference(&in_file) {
        return Err(format!(
            "topic {topic} has {in_store:?} in the store and {in_file:?} in the file{SERVERS}"
        )
        .into());
    }
    Ok(output::line("checked: the store has as many jobs of each topic and state as the file")?)
}

const STARTED: &str = "a server has started to use this store during the import, so the store cannot \
    be compared with the file. All jobs of the file were imported. Do not import the file again: jobs \
    that were finished since then would come back. To be sure that no job is missing, stop the server \
    and import into an empty store";
const SERVERS: &str =
    ": a server may be using the store. Stop all servers, and import into an empty store";

#[cfg(test)]
mod tests;
