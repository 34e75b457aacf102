//! Examination and repair of a store's directory for `delay-queue doctor`.

use std::{error::Error, fs, path::Path};

use super::{FileStore, directory, repair, repair::Repaired, room};
use crate::store::{
    Counts, JobReads, OpenError, Options, Report, SchedulePage, ScheduleReader, ScheduleStore,
    Store, StoreResult, TopicPage, report::unreadable_schedule,
};

/// Maximum number of topics per bucket whose jobs are counted.
const MAX_TOPICS: usize = 100_000;
/// Number of schedules per page.
const SCHEDULES_PER_PAGE: usize = 100;

/// Examines the store in `dir`; repairs it if `is_repair` and it is damaged.
pub async fn report(
    dir: &Path,
    options: Options,
    is_repair: bool,
    read: ScheduleReader,
) -> Result<Report, Box<dyn Error + Send + Sync>> {
    let mut report = Report::default();
    report.line("store", format_args!("file:{}", dir.display()));
    report.line("ack", "on disk: every answer waits for fsync");
    if !dir.join("jobs.db").exists() {
        report.line("layout", "no store there yet: the first start creates it");
        return Ok(report.end(&[], Vec::new()));
    }
    let mut opened = examine(dir, options.clone()).await;
    if is_repair && !matches!(&opened, Ok((_, wrong)) if wrong.is_empty()) {
        if let Ok((store, _)) = opened {
            store.close().await;
        }
        opened = match repair::repair(dir, &options) {
            Ok(Repaired { saved, salvaged }) => {
                report.line("repaired", format_args!("{salvaged}"));
                report.line("", format_args!("the damaged files are in {}", saved.display()));
                examine(dir, options.clone()).await
            }
            Err(error) => Err(error),
        };
    }
    let (store, mut wrong) = match opened {
        Ok(opened) => opened,
        Err(OpenError::InUse { .. }) => {
            report.line("servers", "1 is using the store: stop it to examine the jobs");
            return Ok(report.end(&[], Vec::new()));
        }
        Err(error) => {
            let advice = if is_repair { advice_if_no_room(dir) } else { None };
            return Ok(report.end(&advice.into_iter().collect::<Vec<_>>(), vec![error.to_string()]));
        }
    };
    let mut sum = Counts::default();
    for bucket in store.buckets().all() {
        let page = TopicPage { prefix: String::new(), after: None, limit: MAX_TOPICS };
        for (_, peek) in store.topics(bucket, page).await? {
            sum = sum.plus(peek.counts);
        }
    }
    if store.condition().is_full {
        report.line("disk", "full: puts are refused; finish, delete and purge still work");
    }
    report.line("buckets", store.buckets().get());
    report.jobs(sum);
    let (schedules, unreadable) = schedules(&store, read).await?;
    report.line("schedules", schedules);
    store.close().await;
    let advice = match wrong.is_empty() {
        true => Vec::new(),
        false => {
            vec!["`doctor --repair` leaves out unreadable rows, and repairs the rest".into()]
        }
    };
    wrong.extend(unreadable);
    Ok(report.end(&advice, wrong))
}

/// Returns the number of schedules, and the problem of each one that cannot be read.
async fn schedules(store: &FileStore, read: ScheduleReader) -> StoreResult<(u64, Vec<String>)> {
    let (mut count, mut unreadable, mut after) = (0, Vec::new(), None);
    loop {
        let page = SchedulePage { prefix: String::new(), after, limit: SCHEDULES_PER_PAGE };
        let page = store.schedules(page).await?;
        count += page.schedules.len() as u64;
        for stored in page.schedules {
            if let Err(reason) = read(&stored) {
                unreadable.push(unreadable_schedule(stored.name.as_str(), &reason));
            }
        }
        after = page.more_after;
        if after.is_none() {
            return Ok((count, unreadable));
        }
    }
}

/// Returns advice if a repair lacks room: it writes all jobs again before it removes the old
/// files.
fn advice_if_no_room(dir: &Path) -> Option<String> {
    let needed = fs::metadata(dir.join("jobs.db")).ok()?.len() + room::LOG_BYTES;
    let free = directory::room(dir).ok()?.free;
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    (free < needed).then(|| {
        format!(
            "a repair writes all jobs again and may need {} MiB, but {} MiB are free on the disk. Free \
             space, or save the readable jobs to another disk: `delay-queue export --skip-damaged FILE`",
            mib(needed),
            mib(free)
        )
    })
}

/// Opens the store and lists the faults of its file.
async fn examine(dir: &Path, options: Options) -> Result<(FileStore, Vec<String>), OpenError> {
    let store = FileStore::open(dir, options)?;
    let wrong = store.examine().await.unwrap_or_else(|error| vec![error.to_string()]);
    Ok((store, wrong))
}
