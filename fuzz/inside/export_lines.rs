//! Fuzz target of the lines that `import` reads.

use arbitrary::Unstructured;

use super::{
    job_line::JobLine,
    line::{FORMAT, Head, Line, VERSION},
    reader::{Damage, Item, Reader, Sums},
    schedule_line::ScheduleLine,
};
use crate::{fuzzing, job::Job, store::StoredSchedule};

/// Checks that every job reads back as written, that every job and schedule of an import can be
/// written again, and that reading a file of any lines, with or without valid sums, does not panic.
pub fn export_lines(data: &[u8]) {
    let _ = read(data);
    let mut input = Unstructured::new(data);
    if let Ok(job) = fuzzing::job(&mut input) {
        assert_eq!(round_trip(&job), job);
        let line = Line::Job(JobLine::new(&job).expect("a job of a store"));
        let read = read(&with_valid_sums(&[serde_json::to_vec(&line).expect("JSON")]));
        assert_eq!(read.expect("a valid export").0, [job]);
    }
    let lines: Vec<Vec<u8>> = data.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    let (jobs, schedules) = read(&with_valid_sums(&lines)).unwrap_or_default();
    for job in jobs {
        assert_eq!(round_trip(&job), job);
    }
    for schedule in schedules {
        let text = schedule.record.stored().expect("JSON").text;
        let again = ScheduleLine::new(StoredSchedule { name: schedule.name.clone(), text });
        assert_eq!(again.as_ref(), Ok(&schedule));
        let text = serde_json::to_string(&schedule).expect("JSON");
        assert_eq!(serde_json::from_str::<ScheduleLine>(&text).expect("its own line"), schedule);
    }
}

/// Writes a job as a line and reads it back.
fn round_trip(job: &Job) -> Job {
    let line = JobLine::new(job).expect("a job of a store");
    let text = serde_json::to_string(&line).expect("JSON");
    let line: JobLine<'_> = serde_json::from_str(&text).expect("its own line");
    line.job().expect("its own job")
}

/// Returns an export of one bucket with the given lines and valid sums.
fn with_valid_sums(lines: &[Vec<u8>]) -> Vec<u8> {
    let (mut all, mut sums) = (Vec::new(), Sums::default());
    let mut write = |sums: &mut Sums, line: &Line<'_>, text: &[u8]| {
        let text = [text, b"\n"].concat();
        sums.add(line, &text);
        all.extend(text);
    };
    let own = |line: &Line<'_>| serde_json::to_vec(line).expect("JSON");
    let (format, store) = (FORMAT.to_owned(), String::new());
    let head = Line::Head(Head { format, version: VERSION, store, buckets: 1 });
    write(&mut sums, &head, &own(&head));
    // Puts the lines in the order of an export: jobs, then settings, then all other text.
    let (mut jobs, mut settings, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for text in lines {
        match serde_json::from_slice::<Line<'_>>(text) {
            Ok(line @ Line::Job(_)) => jobs.push((line, text)),
            Ok(line @ (Line::Topic(_) | Line::Schedule(_))) => settings.push((line, text)),
            _ => others.push(text),
        }
    }
    jobs.iter().for_each(|(line, text)| write(&mut sums, line, text));
    let section = Line::Section(sums.section());
    write(&mut sums, &section, &own(&section));
    settings.iter().for_each(|(line, text)| write(&mut sums, line, text));
    let total = Line::Total(sums.total());
    write(&mut sums, &total, &own(&total));
    if let Some(text) = others.first().filter(|text| !text.is_empty()) {
        all.extend_from_slice(text);
    }
    all
}

fn read(text: &[u8]) -> Result<(Vec<Job>, Vec<ScheduleLine>), Damage> {
    let (mut reader, mut jobs, mut schedules) = (Reader::open(text)?, Vec::new(), Vec::new());
    while let Some(item) = reader.next()? {
        match item {
            Item::Job(job) => jobs.push(*job),
            Item::Schedule(schedule) => schedules.push(*schedule),
            Item::Section(_) | Item::Topic(_) | Item::Total => {}
        }
    }
    Ok((jobs, schedules))
}
