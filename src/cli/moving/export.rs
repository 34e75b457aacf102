//! `delay-queue export`: writes the jobs of each bucket, page by page.
//!
//! After an interruption, the next export reads the unfinished file, compares it with the store,
//! and continues after its last complete section.

use std::{
    error::Error,
    fs::File,
    io::{BufReader, Read, Seek},
};

use super::{
    Export, is_standard_stream,
    job_line::JobLine,
    line::{FORMAT, Head, Line, TopicLine, VERSION},
    opening::{self, Salvage},
    part::Part,
    progress::Progress,
    reader::{Item, Reader, Sums},
    schedule_line::ScheduleLine,
    servers::NoServers,
    tally::Tally,
};
use crate::{
    config::Settings,
    job::{Bucket, Job, State, Topic, TopicSettings},
    store::{Damaged, JobRange, MAX_BATCH, SchedulePage, Store},
};

type StoreResult<T> = Result<T, Box<dyn Error>>;

/// Number of jobs in the first page, and minimum of the later ones.
const MIN_JOBS_PER_PAGE: usize = 10;
/// Size of the bodies of a page, in bytes, above which the next page has half as many jobs. Below,
/// it has twice as many.
const PAGE_BYTES: usize = 4 << 20;
/// Number of schedules per page.
const SCHEDULES_PER_PAGE: usize = 100;

pub async fn run(arguments: &Export, settings: &Settings) -> StoreResult<()> {
    let file = Some(arguments.file.as_path()).filter(|file| !is_standard_stream(file));
    if let Some(file) = file.filter(|file| file.exists() && !arguments.force) {
        let advice = "choose another name, or replace the file with --force";
        return Err(format!("failed to export: {} exists already; {advice}", file.display()).into());
    }
    let (store, salvage) = opening::open(arguments, settings).await?;
    let name = settings.store.location()?.identity()?;
    let head = Head {
        format: FORMAT.to_owned(),
        version: VERSION,
        store: name,
        buckets: store.buckets().get(),
    };
    let result = async {
        let no_servers = NoServers::wait(&*store).await;
        let no_servers = no_servers.map_err(|error| format!("failed to export: {error}"))?;
        let part = match file {
            Some(file) => Part::open(file, arguments.force)?,
            None => Part::standard_output(),
        };
        let skip_damaged = arguments.skip_damaged;
        Exporter { store: &*store, no_servers, part, skip_damaged, left_out: 0 }.run(&head).await
    };
    let result = result.await;
    store.close().await;
    salvage.map_or(Ok(()), Salvage::finish)?;
    result
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
            self.part.resume_at(Sums::default())?;
            self.part.write(&Line::Head(head.clone()))?;
        }
        let total = Tally::of_store(self.store).await?.jobs();
        let mut progress = Progress::new("exported", Some(total));
        let complete = usize::from(self.part.sums.sections);
        for bucket in self.store.buckets().all().skip(complete) {
            self.export_bucket(bucket, &mut progress).await?;
        }
        drop(progress);
        let topics = self.export_topics().await?;
        let schedules = self.export_schedules().await?;
        if self.no_servers.has_server_started(self.store).await? {
            // The next export must not resume this file, because resuming compares only counts.
            self.part.resume_at(Sums::default())?;
            let cause =
                "a server has started to use this store, so jobs may be missing or duplicated";
            return Err(format!("failed to export: {cause}; stop it, and export again").into());
        }
        self.part.write(&Line::Total(self.part.sums.total()))?;
        let jobs = self.part.sums.jobs;
        let left_out = match self.left_out {
            0 => String::new(),
            damaged => format!(" (left out {damaged} damaged ones)"),
        };
        let rest = format!("the settings of {topics} topics, and {schedules}");
        self.part.finish(&format!("exported {jobs} jobs{left_out}, {rest}"))
    }

    async fn export_bucket(&mut self, bucket: Bucket, progress: &mut Progress) -> StoreResult<()> {
        let before = Tally::of_bucket(self.store, bucket).await?;
        let mut written = Tally::default();
        for topic in before.topics() {
            for state in State::ALL {
                self.export_jobs(bucket, topic, state, &mut written, progress).await?;
            }
        }
        self.compare(bucket, Some(&before), &written).await?;
        self.part.write(&Line::Section(self.part.sums.section()))
    }

    async fn export_jobs(
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
                match JobLine::new(job) {
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
            progress.report(self.part.sums.jobs);
            let bytes: usize = page.jobs.iter().map(Job::content_bytes).sum();
            limit = if bytes > PAGE_BYTES { limit / 2 } else { limit * 2 };
            limit = limit.clamp(MIN_JOBS_PER_PAGE, MAX_BATCH);
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Checks that a section has all jobs of its bucket, and counts the damaged ones, which it
    /// lacks. `before` has the counts from before the section was written; `None` when resuming.
    async fn compare(
        &mut self,
        bucket: Bucket,
        before: Option<&Tally>,
        written: &Tally,
    ) -> StoreResult<()> {
        let now = Tally::of_bucket(self.store, bucket).await?.with_delayed_as_ready();
        let written = written.with_delayed_as_ready();
        let changed = before.is_some_and(|before| before.with_delayed_as_ready() != now);
        let (part, start_over) = (self.part.name(), self.part.start_over());
        if changed || !written.is_within(&now) {
            return Err(format!(
                "failed to export: jobs of bucket {} have changed since they were written to \
                 {part}; stop all servers of this store, and {start_over}",
                bucket.index()
            )
            .into());
        }
        let missing = now.jobs() - written.jobs();
        if let Some((topic, ..)) = now.first_difference(&written).filter(|_| !self.skip_damaged) {
            return Err(format!(
                "failed to export: {missing} jobs of bucket {} were not read, the first of them in \
                 topic {topic}: they are damaged, or were put after {part} was started. Leave \
                 damaged jobs out with --skip-damaged; if a server was running, {start_over}",
                bucket.index()
            )
            .into());
        }
        self.left_out += missing;
        Ok(())
    }

    /// Writes the settings of topics; returns the number of topics that have any.
    async fn export_topics(&mut self) -> StoreResult<u64> {
        let mut settings = TopicSettings::default();
        let changes = self.store.settings(settings.version).await?;
        changes.map(|changes| settings.apply(changes));
        let names = settings.paused.keys().chain(settings.defaults.keys());
        let names = names.chain(settings.pushes.keys());
        let names: std::collections::BTreeSet<&Topic> = names.collect();
        for topic in names {
            let pause = settings.paused.get(topic);
            let (paused, paused_until) = (pause.is_some(), pause.and_then(|pause| pause.until));
            let defaults = settings.defaults.get(topic).cloned();
            let push = settings.pushes.get(topic).map(|push| push.exported());
            let topic = topic.clone();
            let line = TopicLine { topic, paused, paused_until, defaults, push };
            self.part.write(&Line::Topic(line))?;
        }
        Ok(self.part.sums.topics)
    }

    /// Writes all schedules; returns how many, for a message.
    async fn export_schedules(&mut self) -> StoreResult<String> {
        let (mut after, mut left_out) = (None, 0);
        loop {
            let page = SchedulePage { prefix: String::new(), after, limit: SCHEDULES_PER_PAGE };
            let page = self.store.schedules(page).await?;
            for stored in page.schedules {
                let name = stored.name.clone();
                match ScheduleLine::new(stored) {
                    Ok(line) => self.part.write(&Line::Schedule(Box::new(line)))?,
                    Err(reason) if self.skip_damaged => {
                        tracing::warn!(%name, reason, "a schedule is damaged");
                        left_out += 1;
                    }
                    Err(reason) => {
                        return Err(format!(
                            "failed to export: the schedule {name:?} cannot be read ({reason}); set \
                             it again, or leave it out with --skip-damaged"
                        )
                        .into());
                    }
                }
            }
            after = page.more_after;
            if after.is_none() {
                break;
            }
        }
        let schedules = self.part.sums.schedules;
        Ok(match left_out {
            0 => format!("{schedules} schedules"),
            damaged => format!("{schedules} schedules (left out {damaged} damaged ones)"),
        })
    }

    /// Continues an interrupted export after its last complete section; returns `false` if there is
    /// none to continue.
    async fn resume(&mut self, head: &Head) -> StoreResult<bool> {
        let Some(file) = self.part.open_for_reading()? else { return Ok(false) };
        let shown = self.part.name();
        if is_beginning(&file, head)? {
            return Ok(false);
        }
        let advice = format!("remove it, or {}", self.part.start_over());
        let refused = |cause: String| format!("failed to resume {shown}: {cause}; {advice}");
        let mut reader = Reader::open(BufReader::new(file)).map_err(|d| refused(d.to_string()))?;
        if reader.head() != head {
            let Head { store, buckets, .. } = reader.head();
            return Err(refused(format!("it is an export of {store} ({buckets} buckets)")).into());
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
                Item::Topic(_) | Item::Schedule(_) | Item::Total => break,
            }
        }
        eprintln!("resuming {shown}, which has {} jobs", sums.jobs);
        self.part.resume_at(sums)?;
        Ok(true)
    }
}

/// Returns whether a file ends within this head line, so that there is nothing to resume.
fn is_beginning(file: &File, head: &Head) -> StoreResult<bool> {
    let line = serde_json::to_vec(&Line::Head(head.clone()))?;
    let mut beginning = Vec::new();
    let mut file = file;
    file.take(line.len() as u64 + 1).read_to_end(&mut beginning)?;
    file.rewind()?;
    Ok(line.starts_with(&beginning))
}
