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
    servers::NoServers,
    tally::Tally,
};
use crate::{
    cli::output,
    config::Settings,
    job::{Bucket, Buckets, Job, JobId, Refusal, Schedule, SettingsChanges, TopicSettings},
    server::open_store,
    store::{Store, verb},
};

type StoreResult<T> = Result<T, Box<dyn Error>>;

/// Approximate limits in bytes: of one batch, and of all unfinished batches together.
const BATCH_BYTES: usize = 8 << 20;
const HELD_BYTES: usize = 64 << 20;
/// Approximate bytes of a job in addition to its body.
const JOB_BYTES: usize = 512;

/// Contents of the file: the number of jobs by topic and state, and the settings of topics.
struct Content {
    tally: Tally,
    topics: Vec<TopicLine>,
}

pub async fn run(file: &Path, settings: &Settings) -> StoreResult<()> {
    let shown = match super::is_standard(file) {
        true => "standard input".into(),
        false => file.display().to_string(),
    };
    let content = Source::of(file).and_then(|source| Ok((check(&source)?, source)));
    let (content, source) = content
        .map_err(|error| format!("failed to import {shown}: {error}; nothing was written"))?;
    let store = open_store(settings).await?;
    let done = async {
        let no_servers = NoServers::wait(&*store).await?;
        take(&*store, &source, &content, &no_servers).await
    };
    let done = done.await;
    store.close().await;
    done.map_err(|error| format!("failed to import {shown}: {error}").into())
}

/// A file that can be read twice.
struct Source(File);

impl Source {
    /// Opens the file; copies standard input to an unnamed temporary file.
    fn of(file: &Path) -> StoreResult<Self> {
        if !super::is_standard(file) {
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
    let mut content = Content { tally: Tally::default(), topics: Vec::new() };
    let (mut ids, mut progress) = (Ids::default(), Progress::new("checked", None));
    while let Some(item) = reader.next()? {
        match item {
            Item::Job(job) => {
                ids.add(&job.id, reader.line());
                content.tally.add(&job.topic, job.state);
                progress.at(reader.sums().jobs);
            }
            Item::Topic(topic) => content.topics.push(*topic),
            Item::Section(_) | Item::Total => {}
        }
    }
    match ids.first_duplicate() {
        Some((first, again)) => {
            Err(format!("line {again}: its id stands in line {first} already").into())
        }
        None => Ok(content),
    }
}

/// The ids of a file, to find duplicates: 16 bytes each, of which 11 are of a hash (with a billion
/// ids, the chance of a collision is one in 10^8) and 5 are the line number.
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
async fn take(
    store: &dyn Store,
    source: &Source,
    content: &Content,
    no_servers: &NoServers,
) -> StoreResult<()> {
    let before = Tally::of_store(store).await?;
    let again = |error: Box<dyn Error>| format!("{error}. Run the same import again to continue");
    let taken = fill(store, source, content).await.map_err(again)?;
    let (all, topics) = (content.tally.jobs(), content.topics.len());
    output::line(format_args!(
        "imported {} jobs; {} of {all} were there already; set {topics} topics",
        taken.created, taken.there
    ))?;
    if no_servers.has_server_started(store).await? {
        return Err(STARTED.into());
    }
    compare(&before, &Tally::of_store(store).await?, &taken, content)
}

/// Numbers of jobs that were restored, and that existed already.
#[derive(Default)]
struct Taken {
    created: u64,
    there: u64,
}

async fn fill(store: &dyn Store, source: &Source, content: &Content) -> StoreResult<Taken> {
    // Must come first, so that no server delivers jobs of paused topics.
    set_topics(store, &content.topics).await?;
    let mut reader = source.open()?;
    let mut progress = Progress::new("imported", Some(content.tally.jobs()));
    let (mut batches, mut taken) =
        (Batches::new(store.buckets(), store.batch_limit()), Taken::default());
    while let Some(item) = reader.next()? {
        if let Item::Job(job) = item {
            for (bucket, jobs) in batches.add(*job) {
                restore(store, bucket, jobs, &mut taken).await?;
            }
            progress.at(taken.created + taken.there);
        }
    }
    for (bucket, jobs) in batches.all() {
        restore(store, bucket, jobs, &mut taken).await?;
    }
    Ok(taken)
}

/// Pauses topics and sets defaults. Settings that are not in the file remain. Existing pauses also
/// remain, so that no import makes a topic deliver jobs again.
async fn set_topics(store: &dyn Store, topics: &[TopicLine]) -> StoreResult<()> {
    let settings = match store.settings(0).await? {
        Some(SettingsChanges::All(settings)) => settings,
        Some(SettingsChanges::Changed { .. }) | None => TopicSettings::default(),
    };
    for TopicLine { topic, paused, paused_until, defaults } in topics {
        if *paused && !settings.paused.contains_key(topic) {
            match *paused_until {
                Some(until) => drop(store.pause_until(topic.clone(), Schedule::At(until)).await?),
                None => store.set_paused(topic.clone(), true).await?,
            }
        }
        if defaults.is_some() {
            store.set_defaults(topic.clone(), defaults.clone()).await?;
        }
    }
    Ok(())
}

async fn restore(
    store: &dyn Store,
    bucket: Bucket,
    jobs: Vec<Job>,
    taken: &mut Taken,
) -> StoreResult<()> {
    for reply in store.call_in::<verb::Restore>(bucket, jobs).await? {
        match reply {
            Ok(()) => taken.created += 1,
            Err(Refusal::Exists(_)) => taken.there += 1,
            Err(refusal) => return Err(format!("the store refuses a job: {refusal:?}").into()),
        }
    }
    Ok(())
}

/// Jobs to be restored, by their bucket in this store.
struct Batches {
    buckets: Buckets,
    /// Maximum number of jobs of one batch.
    limit: usize,
    of: Vec<(Vec<Job>, usize)>,
    bytes: usize,
}

impl Batches {
    fn new(buckets: Buckets, limit: usize) -> Self {
        let of = buckets.all().map(|_| Default::default()).collect();
        Self { buckets, limit, of, bytes: 0 }
    }

    /// Adds a job; returns the batches to restore now, in this order.
    fn add(&mut self, job: Job) -> Vec<(Bucket, Vec<Job>)> {
        let bucket = self.buckets.of(&job.id);
        let (jobs, bytes) = &mut self.of[bucket.index()];
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
        let taken = self.of.iter_mut().map(|of| std::mem::take(of).0);
        self.buckets.all().zip(taken).filter(|(_, jobs)| !jobs.is_empty()).collect()
    }
}

/// Checks that the number of jobs in the store has grown by the number of restored jobs. If all its
/// jobs are in the file, also compares the counts of each topic and state with the file.
fn compare(before: &Tally, after: &Tally, taken: &Taken, content: &Content) -> StoreResult<()> {
    let expected = before.jobs() + taken.created;
    if after.jobs() != expected {
        let has = after.jobs();
        return Err(format!("the store has {has} jobs, it should have {expected}{SERVERS}").into());
    }
    if before.jobs() > taken.there {
        let others = before.jobs() - taken.there;
        let checked =
            format_args!("checked: the store has them all, and {others} others as before");
        return Ok(output::line(checked)?);
    }
    // Jobs restored by an earlier import may have become due since then.
    let settle = |tally: &Tally| if before.jobs() > 0 { tally.settled() } else { tally.clone() };
    let (stored, filed) = (settle(after), settle(&content.tally));
    if let Some((topic, stored, filed)) = stored.differs(&filed) {
        return Err(format!(
            "topic {topic} has {stored:?} in the store and {filed:?} in the file{SERVERS}"
        )
        .into());
    }
    Ok(output::line("checked: the store has as many jobs of each topic and state as the file")?)
}

const STARTED: &str = "a server has started to work on this store meanwhile, so it cannot be \
    compared with the file. All jobs of the file were imported: do not import it again, or those that \
    were finished since come back. To be sure of each job, stop the server and import into an empty \
    store";
const SERVERS: &str =
    ": is a server at work on it? Stop all servers, and import into an empty store";

#[cfg(test)]
mod tests;
