//! Reader of an export that checks order, counts and checksums up to the end of the file.

#[cfg(test)]
mod tests;

use std::{
    fmt,
    io::{BufRead, Read},
};

use crc32fast::Hasher;

use super::{
    line::{AnyHead, FORMAT, Head, Line, Section, TopicLine, Total, VERSION, format_crc32},
    schedule_line::ScheduleLine,
};
use crate::job::{Bucket, Buckets, Job, ScheduleName};

/// Maximum length of a line, in bytes: enough for the largest body that settings allow, with every
/// byte escaped.
const MAX_LINE_BYTES: u64 = 160 << 20;

/// An invalid line of an export.
#[derive(Debug)]
pub struct Damage {
    line: u64,
    reason: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for Damage {}

#[derive(Debug)]
pub enum Item {
    Job(Box<Job>),
    /// The end of a bucket, whose jobs match their checksum.
    Section(Bucket),
    Topic(Box<TopicLine>),
    Schedule(Box<ScheduleLine>),
    /// The end of the file, which matches its checksum.
    Total,
}

/// Counts and checksums of the lines so far. With the sums after a section line, an export can
/// resume after that line.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    pub bytes: u64,
    /// CRC-32 of all lines so far.
    pub whole: Hasher,
    /// CRC-32 of the job lines of this section so far.
    pub section: Hasher,
    pub section_jobs: u64,
    pub jobs: u64,
    pub topics: u64,
    pub schedules: u64,
    pub sections: u16,
}

impl Sums {
    pub fn add(&mut self, line: &Line<'_>, text: &[u8]) {
        self.bytes += text.len() as u64;
        self.whole.update(text);
        match line {
            Line::Job(_) => {
                self.section.update(text);
                self.section_jobs += 1;
                self.jobs += 1;
            }
            Line::Section(_) => {
                self.section = Hasher::new();
                self.section_jobs = 0;
                self.sections += 1;
            }
            Line::Topic(_) => self.topics += 1,
            Line::Schedule(_) => self.schedules += 1,
            Line::Head(_) | Line::Total(_) => {}
        }
    }

    /// Returns the section line for the current position.
    pub fn section(&self) -> Section {
        let (bucket, jobs) = (self.sections, self.section_jobs);
        Section { bucket, jobs, crc32: format_crc32(&self.section) }
    }

    /// Returns the last line for the current position.
    pub fn total(&self) -> Total {
        let Self { jobs, topics, schedules, .. } = *self;
        Total { jobs, topics, schedules, crc32: format_crc32(&self.whole) }
    }
}

pub struct Reader<R> {
    input: R,
    head: Head,
    buckets: Buckets,
    text: Vec<u8>,
    line: u64,
    sums: Sums,
    last_schedule: Option<ScheduleName>,
    complete: bool,
}

impl<R: BufRead> Reader<R> {
    pub fn open(input: R) -> Result<Self, Damage> {
        let mut reader = Self {
            input,
            head: Head { format: String::new(), version: 0, store: String::new(), buckets: 1 },
            buckets: Buckets::ONE,
            text: Vec::new(),
            line: 0,
            sums: Sums::default(),
            last_schedule: None,
            complete: false,
        };
        // Reports a read error here: below it would look like a file of another format.
        let first = reader.input.fill_buf().map(|_| ());
        first.map_err(|cause| reader.damage(format!("it cannot be read: {cause}")))?;
        let first_line = reader.read_line();
        let any = serde_json::from_slice::<AnyHead>(&reader.text).ok().map(|any| any.head);
        match any {
            Some(head) if head.format == FORMAT && head.version != VERSION => {
                return Err(reader.damage(format!(
                    "the file has version {}, but this delay-queue reads version {VERSION}; import \
                     it with the delay-queue that wrote it, then export the store with this one",
                    head.version
                )));
            }
            Some(head) if head.format == FORMAT => {}
            _ => return Err(reader.damage("the file is not an export of delay-queue")),
        }
        first_line?;
        let text = std::mem::take(&mut reader.text);
        let line = reader.parse(&text)?;
        reader.sums.add(&line, &text);
        let Line::Head(head) = line else {
            return Err(reader.damage("the first line is not the head of an export"));
        };
        reader.buckets = head.buckets.try_into().map_err(|error| reader.damage(error))?;
        reader.head = head;
        Ok(reader)
    }

    pub fn head(&self) -> &Head {
        &self.head
    }

    pub fn line(&self) -> u64 {
        self.line
    }

    pub fn sums(&self) -> &Sums {
        &self.sums
    }

    pub fn next(&mut self) -> Result<Option<Item>, Damage> {
        if !self.read_line()? {
            return Ok(None);
        }
        // Takes the text out of `self`, because the line borrows it while `self` changes.
        let text = std::mem::take(&mut self.text);
        let item = self.item(&text);
        self.text = text;
        item.map(Some)
    }

    fn item(&mut self, text: &[u8]) -> Result<Item, Damage> {
        let line = self.parse(text)?;
        let in_sections = self.sums.sections < self.buckets.get();
        match &line {
            Line::Section(section) if in_sections => {
                self.compare(section, &self.sums.section(), "the section")?;
            }
            Line::Total(total) if !in_sections => {
                self.compare(total, &self.sums.total(), "the file")?;
                self.complete = true;
            }
            Line::Job(_) if in_sections => {}
            Line::Topic(_) | Line::Schedule(_) if !in_sections => {}
            _ => return Err(self.damage("a line of this kind is not allowed here")),
        }
        let bucket = self.buckets.all().nth(usize::from(self.sums.sections));
        self.sums.add(&line, text);
        match line {
            Line::Job(job) => {
                let job = job.job().map_err(|reason| self.damage(reason))?;
                if Some(self.buckets.of(&job.id)) != bucket {
                    return Err(self.damage("the job belongs to another section"));
                }
                Ok(Item::Job(Box::new(job)))
            }
            Line::Section(_) => Ok(Item::Section(bucket.expect("it is one of the sections"))),
            Line::Topic(topic) => match &topic.push {
                Some(push) if !push.is_within_limits() => {
                    Err(self.damage("the push of the topic has a number beyond its limits"))
                }
                _ => Ok(Item::Topic(Box::new(topic))),
            },
            Line::Schedule(schedule) => {
                let name = Some(schedule.name.clone());
                if self.last_schedule >= name {
                    return Err(
                        self.damage("schedules must be in the order of their names, each once")
                    );
                }
                self.last_schedule = name;
                Ok(Item::Schedule(schedule))
            }
            Line::Total(_) | Line::Head(_) => Ok(Item::Total),
        }
    }

    fn compare<T: PartialEq + fmt::Display>(
        &self,
        written: &T,
        read: &T,
        what: &str,
    ) -> Result<(), Damage> {
        if written == read {
            return Ok(());
        }
        Err(self.damage(format!(
            "{what} is damaged: it was written with {written}, but has {read}; copy the file again, \
             or export again"
        )))
    }

    /// Reads a line with its line feed; returns `false` at the end of the file.
    fn read_line(&mut self) -> Result<bool, Damage> {
        self.text.clear();
        self.line += 1;
        let read = self.input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut self.text);
        let length = read.map_err(|cause| self.damage(format!("it cannot be read: {cause}")))?;
        match (self.complete, length, self.text.last()) {
            (true, 0, _) => Ok(false),
            (true, ..) => Err(self.damage("there is more data after the last line")),
            (false, _, Some(b'\n')) => Ok(true),
            _ if length as u64 == MAX_LINE_BYTES => Err(self.damage("the line is too long")),
            _ => Err(self.damage(
                "the file ends here without its total: it is truncated, or its export did not finish",
            )),
        }
    }

    fn parse<'a>(&self, text: &'a [u8]) -> Result<Line<'a>, Damage> {
        serde_json::from_slice(text).map_err(|error| {
            // The parser gets one line at a time, so its own line number is always 1.
            self.damage(error.to_string().replace(" at line 1 column ", " at column "))
        })
    }

    fn damage(&self, reason: impl ToString) -> Damage {
        Damage { line: self.line, reason: reason.to_string() }
    }
}
