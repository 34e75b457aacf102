//! `delay-queue export`: bucket by bucket, page by page, into FILE.part; then FILE.
//!
//! What was written before an interruption is read again and compared with the store, and the rest
//! follows behind its last complete section.

use std::{
    error::Error,
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use super::{
    Export,
    job_line::JobLine,
    line::{FORMAT, Head, Line, TopicLine, VERSION},
    progress::Progress,
    reader::{Item, Reader, Sums},
    tally::Tally,
};
use crate::{
    config::{Settings, StoreUrl},
    job::{Bucket, State, Topic},
    server::open_store,
    store::{Damaged, MAX_BATCH, Store},
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Fewest jobs of a page; with large bodies it comes down to this.
const LEAST: usize = 10;
/// About so many bytes of bodies a page may have.
const PAGE_BYTES: usize = 4 << 20;

pub(super) async fn run(arguments: &Export, settings: &Settings) -> Outcome<()> {
    let file = arguments.file.as_path();
    if file.exists() && !arguments.force {
        let advice = "choose another name, or replace it by --force";
        return Err(
            format!("failed to export: {} is there already; {advice}", file.display()).into()
        );
    }
    let name = store_name(settings)?;
    let store = open_store(settings).await?;
    let head = Head {
        format: FORMAT.to_owned(),
        version: VERSION,
        store: name,
        buckets: store.buckets().get(),
    };
    let done = async {
        super::nobody_else_works_on(&*store).await?;
        let part = Part::open(file, arguments.force)?;
        let skip_damaged = arguments.skip_damaged;
        Exporter { store: &*store, part, skip_damaged, left_out: 0 }.run(&head, file).await
    };
    let done = done.await;
    store.close().await;
    done
}

/// The store as the head names it: no user, no password. One that is not there is not made.
fn store_name(settings: &Settings) -> Outcome<String> {
    match settings.store.location()? {
        StoreUrl::File(dir) if !dir.join("jobs.db").exists() => {
            let dir = dir.display();
            Err(format!("failed to export: there is no store in {dir} (store.url)").into())
        }
        StoreUrl::File(dir) => Ok(format!("file:{}", dir.canonicalize()?.display())),
        StoreUrl::Redis(redis) => Ok(format!("{} {}", redis.url, redis.prefix)),
    }
}

/// FILE.part: what is written so far.
struct Part {
    path: PathBuf,
    file: BufWriter<File>,
    sums: Sums,
    text: Vec<u8>,
}

impl Part {
    /// Takes it for this process alone; empty if there was none, or to begin anew.
    fn open(file: &Path, anew: bool) -> Outcome<Self> {
        let mut path = OsString::from(file);
        path.push(".part");
        let path = PathBuf::from(path);
        let shown = path.display();
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(|cause| format!("failed to write {shown}: {cause}"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!("failed to export: another export writes {shown}").into());
            }
            Err(TryLockError::Error(cause)) => {
                return Err(format!("failed to lock {shown}: {cause}").into());
            }
        }
        if anew {
            file.set_len(0)?;
        }
        Ok(Self { path, file: BufWriter::new(file), sums: Sums::default(), text: Vec::new() })
    }

    fn write(&mut self, line: &Line<'_>) -> Outcome<()> {
        self.text.clear();
        serde_json::to_writer(&mut self.text, line)?;
        self.text.push(b'\n');
        self.sums.add(line, &self.text);
        self.file.write_all(&self.text).map_err(|cause| self.failed(&cause))
    }

    /// Goes on behind what these are the sums of; what stands there is dropped.
    fn go_on(&mut self, sums: Sums) -> Outcome<()> {
        let file = self.file.get_mut();
        let done = file.set_len(sums.bytes).and_then(|()| file.seek(SeekFrom::Start(sums.bytes)));
        self.sums = sums;
        done.map(drop).map_err(|cause| self.failed(&cause))
    }

    /// Brings it to the disk under its final name.
    fn finish(mut self, file: &Path) -> Outcome<()> {
        let path = self.path.clone();
        let mut finish = || {
            self.file.flush()?;
            self.file.get_ref().sync_all()?;
            fs::rename(&path, file)?;
            let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
            File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
        };
        finish().map_err(|cause: std::io::Error| self.failed(&cause))
    }

    fn failed(&self, cause: &std::io::Error) -> Box<dyn Error> {
        let path = self.path.display();
        format!("failed to write {path}: {cause}; the same export again goes on").into()
    }
}

struct Exporter<'a> {
    store: &'a dyn Store,
    part: Part,
    skip_damaged: bool,
    /// Jobs that could not be read.
    left_out: u64,
}

impl Exporter<'_> {
    async fn run(mut self, head: &Head, file: &Path) -> Outcome<()> {
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
        self.part.write(&Line::Total(self.part.sums.total()))?;
        let jobs = self.part.sums.jobs;
        self.part.finish(file)?;
        println!(
            "exported {jobs} jobs, and what is set for {topics} topics, to {}",
            file.display()
        );
        if self.left_out > 0 {
            println!("left out {} damaged jobs", self.left_out);
        }
        Ok(())
    }

    async fn bucket(&mut self, bucket: Bucket, progress: &mut Progress) -> Outcome<()> {
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
    ) -> Outcome<()> {
        let (mut after, mut limit) = (None, LEAST);
        loop {
            let page = self.store.list(bucket, topic.clone(), state, after, limit).await?;
            for job in &page.jobs {
                match JobLine::of(job) {
                    Ok(line) => {
                        self.part.write(&Line::Job(line))?;
                        written.add(&job.topic, job.state);
                    }
                    Err(reason) => tracing::warn!(id = %job.id, reason, "a job is damaged"),
                }
            }
            for Damaged { id, reason } in page.damaged.iter().filter(|_| self.skip_damaged) {
                tracing::warn!(%id, reason, "a job is damaged");
            }
            progress.at(self.part.sums.jobs);
            let bytes: usize = page.jobs.iter().map(|job| job.body.len()).sum();
            limit = if bytes > PAGE_BYTES { limit / 2 } else { limit * 2 };
            limit = limit.clamp(LEAST, MAX_BATCH);
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Whether a section has all jobs that its bucket has; counts those that are damaged.
    async fn compare(
        &mut self,
        bucket: Bucket,
        before: Option<&Tally>,
        written: &Tally,
    ) -> Outcome<()> {
        let now = Tally::of_bucket(self.store, bucket).await?.settled();
        let written = written.settled();
        let moved = before.is_some_and(|before| before.settled() != now);
        let part = self.part.path.display();
        if moved || !written.is_within(&now) {
            return Err(format!(
                "failed to export: jobs of bucket {} have moved since they were written to \
                 {part}; stop all servers of this store, and begin anew by --force",
                bucket.index()
            )
            .into());
        }
        let missing = now.jobs() - written.jobs();
        if let Some((topic, ..)) = now.differs(&written).filter(|_| !self.skip_damaged) {
            return Err(format!(
                "failed to export: {missing} jobs of bucket {} did not come, the first of topic \
                 {topic}: they are damaged, or were put since {part} was begun. Leave damaged ones \
                 out by --skip-damaged; if there were servers at work, begin anew by --force",
                bucket.index()
            )
            .into());
        }
        self.left_out += missing;
        Ok(())
    }

    /// Writes what is set for topics; how many there are.
    async fn topics(&mut self) -> Outcome<u64> {
        // No store has this version.
        let Some(settings) = self.store.settings(u64::MAX).await? else { return Ok(0) };
        let names = settings.paused.iter().chain(settings.defaults.keys());
        let names: std::collections::BTreeSet<&Topic> = names.collect();
        for topic in names {
            let paused = settings.paused.contains(topic);
            let defaults = settings.defaults.get(topic).cloned();
            self.part.write(&Line::Topic(TopicLine { topic: topic.clone(), paused, defaults }))?;
        }
        Ok(self.part.sums.topics)
    }

    /// Reads what an interrupted export has written, and goes on behind its last section; answers
    /// whether there is anything to go on with.
    async fn resume(&mut self, head: &Head) -> Outcome<bool> {
        let shown = self.part.path.display().to_string();
        let file = File::open(&self.part.path)?;
        if is_beginning(&file, head)? {
            return Ok(false);
        }
        let advice = "remove it, or begin anew by --force";
        let refused = |what: String| format!("failed to go on with {shown}: {what}; {advice}");
        let mut reader = Reader::open(BufReader::new(file)).map_err(|d| refused(d.to_string()))?;
        if reader.head() != head {
            let Head { store, buckets, .. } = reader.head();
            return Err(refused(format!("it is of {store} ({buckets} buckets)")).into());
        }
        let (mut sums, mut written) = (reader.sums().clone(), Tally::default());
        // Whatever is wrong behind the last complete section is the interruption.
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

/// Whether there is no more in a file than a part of this head.
fn is_beginning(file: &File, head: &Head) -> Outcome<bool> {
    let line = serde_json::to_vec(&Line::Head(head.clone()))?;
    let mut begun = Vec::new();
    let mut file = file;
    file.take(line.len() as u64 + 1).read_to_end(&mut begun)?;
    file.rewind()?;
    Ok(line.starts_with(&begun))
}
