//! `delay-queue export`: writes the jobs of each bucket, page by page.
//!
//! After an interruption, the export reads the file that it had begun, compares it with the store,
//! and continues after its last complete section.

use std::{
    error::Error,
    fs::File,
    io::{BufReader, Read, Seek},
};

use super::{
    Export, is_standard,
    job_line::JobLine,
    line::{FORMAT, Head, Line, TopicLine, VERSION},
    opening::{self, Salvage},
    part::Part,
    progress::Progress,
    reader::{Item, Reader, Sums},
    servers::NoServers,
    tally::Tally,
};
use crate::{
    config::Settings,
    job::{Bucket, Job, State, Topic, TopicSettings},
    store::{Damaged, JobRange, MAX_BATCH, Store},
};

type StoreResult<T> = Result<T, Box<dyn Error>>;

/// Minimum number of jobs per page; large bodies reduce it to this.
const MIN_JOBS_PER_PAGE: usize = 10;
/// Approximate limit of the bodies in a page, in bytes.
const PAGE_BYTES: usize = 4 << 20;

pub async fn run(arguments: &Export, settings: &Settings) -> StoreResult<()> {
    let file = Some(arguments.file.as_path()).filter(|file| !is_standard(file));
    if let Some(file) = file.filter(|file| file.exists() && !arguments.force) {
        let advice = "choose another name, or replace the file with --force";
        return Err(
            format!("failed to export: {} is there already; {advice}", file.display()).into()
        );
    }
    let (store, salvage) = opening::open(arguments, settings).await?;
    let name = settings.store.location()?.identity()?;
    let head = Head {
        format: FORMAT.to_owned(),
        version: VERSION,
        store: name,
        buckets: store.buckets().get(),
    };
    let done = async {
        let no_servers = NoServers::wait(&*store).await;
        let no_servers = no_servers.map_err(|error| format!("failed to export: {error}"))?;
        let part = match file {
            Some(file) => Part::of(file, arguments.force)?,
            None => Part::standard_output(),
        };
        let skip_damaged = arguments.skip_damaged;
        Exporter { store: &*store, no_servers, part, skip_damaged, left_out: 0 }.run(&head).await
    };
    let done = done.await;
    store.close().await;
    salvage.map_or(Ok(()), Salvage::end)?;
    done
}

struct Exporter<'a> {
    store: &'a dyn Store,
    no_servers: NoServers,
    part: Part,
    skip_damaged: bool,
    left_out: u64,
}

impl Exporter<'_> {
    async fn run(mut self, head: &Head) -> StoreResult<()> {
        if !self.resume(head).await? {
            self.part.go_on(Sums::default())?;
            self.part.write(&Line::Head(head.clone()))?;
        }
        let all = Tally::of_store(self.store).await?.jobs();
        let mut progress = Progress::new("exported", Some(all));
        let begin = usize::from(self.part.sums.sections);
        for bucket in self.store.buckets().all().skip(begin) {
            self.bucket(bucket, &mut progress).await?;
        }
        drop(progress);
        let topics = self.topics().await?;
        if self.no_servers.has_server_started(self.store).await? {
            // The next export must not resume from it: that compares only numbers of jobs.
            self.part.go_on(Sums::default())?;
            let why = "a server has started to work on this store, so jobs may be missing or twice";
            return Err(format!("failed to export: {why}; stop it, and export anew").into());
        }
        self.part.write(&Line::Total(self.part.sums.total()))?;
        let jobs = self.part.sums.jobs;
        let left_out = match self.left_out {
            0 => String::new(),
            damaged => format!(" (left out {damaged} damaged ones)"),
        };
        let set = format!("and the settings of {topics} topics,");
        self.part.finish(&format!("exported {jobs} jobs{left_out}, {set}"))
    }

    async fn bucket(&mut self, bucket: Bucket, progress: &mut Progress) -> StoreResult<()> {
        let before = Tally::of_bucket(self.store, bucket).await?;
        let mut written = Tally::default();
        for topic in before.topics() {
            for state in State::ALL {
                self.jobs(bucket, topic, state, &mut written, progress).await?;
            }
        }
        self.compare(bucket, Some(&before), &written).await?;
        self.part.write(&Line::Section(self.part.sums.section()))
    }

    async fn jobs(
        &mut self,
        bucket: Bucket,
        topic: &Topic,
        state: State,
        written: &mut Tally,
        progress: &mut Progress,
    ) -> StoreResult<()> {
        let (mut after, mut limit) = (None, MIN_JOBS_PER_PAGE);
        loop {
            let range = JobRange { after, limit, ..JobRange::default() };
            let page = self.store.list(bucket, topic.clone(), state, range).await?;
            for job in &page.jobs {
                match JobLine::of(job) {
                    Ok(line) => {
                        self.part.write(&Line::Job(line))?;
                        written.add(&job.topic, job.state);
                    }
                    Err(reason) => tracing::warn!(id = %job.id, reason, "a job is damaged"),
                }
            }
            for Damaged { id, reason } in &page.damaged {
                tracing::warn!(%id, reason, "a job is damaged");
            }
            progress.at(self.part.sums.jobs);
            let bytes: usize = page.jobs.iter().map(Job::content_bytes).sum();
            limit = if bytes > PAGE_BYTES { limit / 2 } else { limit * 2 };
            limit = limit.clamp(MIN_JOBS_PER_PAGE, MAX_BATCH);
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Checks that a section has all jobs of its bucket; counts damaged ones.
    async fn compare(
        &mut self,
        bucket: Bucket,
        before: Option<&Tally>,
        written: &Tally,
    ) -> StoreResult<()> {
        let now = Tally::of_bucket(self.store, bucket).await?.settled();
        let written = written.settled();
        let moved = before.is_some_and(|before| before.settled() != now);
        let (part, begin_anew) = (self.part.name(), self.part.begin_anew());
        if moved || !written.is_within(&now) {
            return Err(format!(
                "failed to export: jobs of bucket {} have moved since they were written to \
                 {part}; stop all servers of this store, and {begin_anew}",
                bucket.index()
            )
            .into());
        }
        let missing = now.jobs() - written.jobs();
        if let Some((topic, ..)) = now.differs(&written).filter(|_| !self.skip_damaged) {
            return Err(format!(
                "failed to export: {missing} jobs of bucket {} were not read, the first of topic \
                 {topic}: they are damaged, or were put since {part} was begun. Leave damaged ones \
                 out by --skip-damaged; if there were servers at work, {begin_anew}",
                bucket.index()
            )
            .into());
        }
        self.left_out += missing;
        Ok(())
    }

    /// Writes topic settings; returns how many topics have any.
    async fn topics(&mut self) -> StoreResult<u64> {
        let mut settings = TopicSettings::default();
        let changes = self.store.settings(settings.version).await?;
        changes.map(|changes| settings.apply(changes));
        let names = settings.paused.keys().chain(settings.defaults.keys());
        let names: std::collections::BTreeSet<&Topic> = names.collect();
        for topic in names {
            let pause = settings.paused.get(topic);
            let (paused, paused_until) = (pause.is_some(), pause.and_then(|pause| pause.until));
            let defaults = settings.defaults.get(topic).cloned();
            let topic = topic.clone();
            self.part.write(&Line::Topic(TopicLine { topic, paused, paused_until, defaults }))?;
        }
        Ok(self.part.sums.topics)
    }

    /// Continues after the last section of an interrupted export; returns `false` if there is none.
    async fn resume(&mut self, head: &Head) -> StoreResult<bool> {
        let Some(file) = self.part.written()? else { return Ok(false) };
        let shown = self.part.name();
        if is_beginning(&file, head)? {
            return Ok(false);
        }
        let advice = format!("remove it, or {}", self.part.begin_anew());
        let refused = |what: String| format!("failed to go on with {shown}: {what}; {advice}");
        let mut reader = Reader::open(BufReader::new(file)).map_err(|d| refused(d.to_string()))?;
        if reader.head() != head {
            let Head { store, buckets, .. } = reader.head();
            return Err(refused(format!("it is of {store} ({buckets} buckets)")).into());
        }
        let (mut sums, mut written) = (reader.sums().clone(), Tally::default());
        // Any error after the last complete section is due to the interruption.
        while let Ok(Some(item)) = reader.next() {
            match item {
                Item::Job(job) => written.add(&job.topic, job.state),
                Item::Section(bucket) => {
                    self.compare(bucket, None, &std::mem::take(&mut written)).await?;
                    sums = reader.sums().clone();
                }
                Item::Topic(_) | Item::Total => break,
            }
        }
        eprintln!("going on with {shown}: {} jobs are in it", sums.jobs);
        self.part.go_on(sums)?;
        Ok(true)
    }
}

/// Returns whether a file has at most the beginning of this head.
fn is_beginning(file: &File, head: &Head) -> StoreResult<bool> {
    let line = serde_json::to_vec(&Line::Head(head.clone()))?;
    let mut begun = Vec::new();
    let mut file = file;
    file.take(line.len() as u64 + 1).read_to_end(&mut begun)?;
    file.rewind()?;
    Ok(line.starts_with(&begun))
}
