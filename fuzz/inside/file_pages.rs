//! Fuzz target of damaged files: the pages of a database and its log.
//!
//! The target compares the salvaged rows with the rows that were written before the damage.

mod sound;

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    fs::{self, File},
    os::unix::fs::FileExt,
};

use sqlite_salvage::{Log, Pages};

use self::sound::{JOBS, QUARANTINED, QUARANTINED_GONE, Sound};
use super::{PAGE, ROOTS, Reader, Salvaged};
use crate::{
    job::{Outcome, Setting, SettingKind, State, UnixMillis},
    store::file::machine::{ErrorText, Write},
};

/// A time after the due times of all jobs, so that a due job without attempts may have lost its
/// attempts.
const NOW: UnixMillis = UnixMillis::new(2_000_000_000_000);

thread_local! {
    static SOUND: Sound = Sound::new();
}

/// Changes some bytes of a sound file. `data` has the changes, four bytes each (page, offset in the
/// page, new byte), then an empty change, then the contents of a log. Checks that reading does not
/// panic and returns no row that was not written. One changed byte may lose no more than the
/// contents of its page, and the loss must be reported.
pub fn file_pages(data: &[u8]) {
    SOUND.with(|sound| {
        let (path, log) = (sound.dir.path().join("jobs.db"), sound.dir.path().join("jobs.db-wal"));
        let file = File::options().write(true).open(&path).expect("the file");
        let end = data.chunks_exact(4).position(|change| change == [0; 4]);
        let (changes, rest) = data.split_at(end.map_or(data.len(), |end| end * 4));
        let changes: Vec<(usize, u8)> = changes
            .chunks_exact(4)
            .map(|change| {
                let within = usize::from(u16::from_le_bytes([change[1], change[2]])) % PAGE;
                ((usize::from(change[0]) * PAGE + within) % sound.bytes.len(), change[3])
            })
            .collect();
        for (at, byte) in &changes {
            file.write_all_at(&[*byte], *at as u64).expect("written");
        }
        let rest = rest.get(4..).unwrap_or_default();
        fs::write(&log, rest).expect("written");
        if let Ok(Some(log)) = Log::read(&log, PAGE) {
            let _ = (log.damage().map(|damage| damage.to_string()), log.torn(), log.pages());
        }
        let mut reader =
            Reader { pages: Pages::open(&path, PAGE).expect("opened"), found: Salvaged::default() };
        let _ = reader.buckets();
        let mut writes = Vec::new();
        let read = reader.read(NOW, |some| {
            writes.append(some);
            Ok::<(), Infallible>(())
        });
        let Ok(()) = read;
        for (at, _) in &changes {
            file.write_all_at(&sound.bytes[*at..=*at], *at as u64).expect("written");
        }
        let output = Output::of(writes, sound);
        let known = [reader.found.jobs + reader.found.uncertain, reader.found.uncertain];
        assert_eq!(known, [output.jobs.len() as u64, output.dead.len() as u64]);
        match changes[..] {
            [] if rest.is_empty() => output.check_whole(&reader.found),
            [(at, _)] if rest.is_empty() => {
                output.check_loss_of_one_page(&reader.found, sound, at / PAGE + 1)
            }
            _ => {}
        }
    });
}

/// Numbers of the salvaged rows. A row has the same number in the sound file.
#[derive(Default)]
struct Output {
    jobs: HashSet<u64>,
    /// Jobs whose attempts could not be read. Such jobs become dead, or stay finished.
    dead: HashSet<u64>,
    /// Jobs whose attempts were salvaged too.
    popped: HashSet<u64>,
    topics: HashSet<u64>,
    tokens: HashSet<u64>,
}

impl Output {
    /// Sorts the writes. Panics if a write is not in the sound file, or occurs twice.
    fn of(writes: Vec<Write>, sound: &Sound) -> Self {
        let mut output = Self::default();
        let mut pauses = HashSet::new();
        for write in writes {
            match write {
                Write::Insert { serial, .. } => {
                    assert_eq!(
                        write,
                        sound::insert(serial),
                        "a salvaged job differs from the job that was written"
                    );
                    assert!(output.jobs.insert(serial), "job {serial} was salvaged twice");
                }
                Write::Attempt { serial, .. } => output.attempts(serial, write),
                Write::Finish { serial, outcome, .. } => {
                    assert!(sound::is_finished(serial) && outcome == Outcome::Finished);
                    assert!(output.jobs.contains(&serial) && output.dead.insert(serial));
                }
                Write::Setting(Setting { kind: SettingKind::Pause, .. }) => {
                    let number = number(&sound.pauses, &write);
                    assert!(pauses.insert(number), "a pause was salvaged twice");
                }
                Write::Setting(Setting { kind: SettingKind::Defaults, .. }) => {
                    let number = number(&sound.defaults, &write);
                    assert!(output.topics.insert(number), "defaults were salvaged twice");
                }
                Write::Setting(Setting { kind: SettingKind::Push, .. }) => {
                    panic!("the sound file has no push")
                }
                Write::Token(_) => {
                    let number = number(&sound.tokens, &write);
                    assert!(output.tokens.insert(number), "a token was salvaged twice");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(pauses, output.topics);
        output
    }

    fn attempts(&mut self, serial: u64, write: Write) {
        assert!(self.jobs.contains(&serial), "attempts were salvaged before their job");
        let Write::Attempt { state, at, error, .. } = &write else { unreachable!() };
        let is_new = if (*state, *at) == (State::Dead, UnixMillis::NEVER) {
            assert!(!sound::is_finished(serial), "a finished job became dead");
            self.dead.insert(serial)
        } else {
            let mut expected = sound::pop(serial);
            // An error text may be damaged or missing.
            let partial = [Some("(damaged)"), None].map(|text| text.map(str::to_owned));
            if let Write::Attempt { error: known, .. } = &mut expected
                && let Some(partial) = partial.map(ErrorText::Set).into_iter().find(|p| p == error)
            {
                *known = partial;
            }
            assert_eq!(write, expected, "salvaged attempts differ from the written ones");
            assert!(sound::is_popped(serial), "job {serial} was never popped");
            self.popped.insert(serial)
        };
        assert!(is_new && !(self.dead.contains(&serial) && self.popped.contains(&serial)));
    }

    /// Returns the missing jobs, except the job that was gone before the damage.
    fn lost(&self) -> Vec<u64> {
        (1..=JOBS).filter(|n| *n != QUARANTINED_GONE && !self.jobs.contains(n)).collect()
    }

    fn check_whole(&self, found: &Salvaged) {
        assert!(self.lost().is_empty() && self.jobs.len() as u64 == JOBS - 1);
        assert_eq!(self.dead, HashSet::from([QUARANTINED]));
        let expected = Salvaged { jobs: JOBS - 2, uncertain: 1, ..Salvaged::default() };
        assert_eq!(*found, expected);
    }

    /// Checks that one changed byte in this page has lost only rows of this page.
    fn check_loss_of_one_page(&self, found: &Salvaged, sound: &Sound, page: usize) {
        let is_quarantine = ROOTS.contains(&("aside", u32::try_from(page).unwrap_or_default()));
        let is_overflow = sound.is_overflow(page);
        let missing = |all: &[Write], present: &HashSet<u64>| -> Vec<u64> {
            (0..all.len() as u64).filter(|number| !present.contains(number)).collect()
        };
        let within = |lost: &[u64], leaves: &HashMap<usize, HashSet<u64>>, reported: u64| {
            let of_leaf = leaves.get(&page);
            let is_there = |number| of_leaf.is_some_and(|leaf| leaf.contains(number));
            let is_one = (is_overflow || is_quarantine) && lost.len() == 1;
            assert!(is_one || lost.iter().all(is_there), "lost {lost:?} from other pages");
            assert!(
                lost.is_empty() || is_quarantine || reported > 0,
                "lost {lost:?} without a report"
            );
            assert!(
                reported == 0 || is_overflow || of_leaf.is_some(),
                "{found:?}: damage is reported, but there is none"
            );
        };
        within(&self.lost(), &sound.jobs_by_leaf, found.damaged + found.pages);
        let topics = missing(&sound.defaults, &self.topics);
        within(&topics, &sound.topics_by_leaf, found.topics);
        within(&missing(&sound.tokens, &self.tokens), &sound.tokens_by_leaf, found.tokens);

        let uncertain = self.jobs.iter().filter(|n| **n != QUARANTINED && self.dead.contains(n));
        let leaf = sound.attempts_by_leaf.get(&page);
        let unexplained = uncertain.filter(|serial| {
            let of_leaf = sound.jobs_by_leaf.get(&page);
            if **serial > JOBS || of_leaf.is_some_and(|leaf| leaf.contains(*serial)) {
                return false;
            }
            let serial = serial.cast_signed();
            !leaf.is_some_and(|leaf| leaf.range.0 < serial && serial <= leaf.range.1)
        });
        // A damaged row may have the number of another job.
        let others = usize::from(leaf.is_some() || is_quarantine);
        assert!(unexplained.count() <= others, "jobs with sound attempts became dead");
        let is_fresh =
            |n: &&u64| sound::is_popped(**n) && !self.popped.contains(n) && !self.dead.contains(n);
        let lost_attempts: Vec<&u64> = self.jobs.iter().filter(is_fresh).collect();
        let is_old = |serial: &&u64| **serial > JOBS && !self.dead.contains(serial);
        let resurrected: Vec<&u64> = self.jobs.iter().filter(is_old).collect();
        assert!(resurrected.is_empty(), "{resurrected:?} were deleted, but are salvaged");
        assert!(lost_attempts.is_empty(), "{lost_attempts:?} were popped, but have no attempt");
        assert!(
            is_quarantine || !self.jobs.contains(&QUARANTINED_GONE),
            "a quarantined job that is gone is salvaged"
        );
    }
}

/// Returns the index of `write` in `known`.
fn number(known: &[Write], write: &Write) -> u64 {
    let number = known.iter().position(|known| known == write);
    number.unwrap_or_else(|| panic!("invented: {write:?}")) as u64
}
