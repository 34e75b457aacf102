//! Builds the machines from the file. Reading rows takes about as long as adding jobs to the index,
//! so a second thread builds the index.

use std::{
    error::Error,
    mem, panic,
    sync::mpsc::{Receiver, Sender, channel, sync_channel},
    thread,
};

use super::{
    index::Arrival, machine::Machine, schedules::ScheduleIndex, writer_state::WriterState,
};
use crate::{job::Buckets, store::Now};

/// Number of jobs that one thread sends to the other at once.
const CHUNK: usize = 1024;
/// Maximum number of waiting chunks, which lets the reader get ahead for a moment.
const AHEAD: usize = 8;

impl WriterState {
    /// Builds the machines from the file, if they are stale.
    pub fn load(&mut self) -> Result<(), Box<dyn Error>> {
        if !self.stale {
            return Ok(());
        }
        let (buckets, now) = (self.buckets, self.now());
        self.machines = buckets.all().map(|_| Machine::default()).collect();
        let machines = &mut self.machines;
        let room = self.records.expected_jobs()? / machines.len();
        machines.iter_mut().for_each(|machine| machine.make_room(room));
        let (records, taking) = (&mut self.records, &mut machines[..]);
        let loaded = thread::scope(|scope| {
            let (chunks, arrivals) = sync_channel(AHEAD);
            let (used, empty) = channel();
            let take = move || take_in(taking, (buckets, now), &arrivals, &used);
            let index = thread::Builder::new().name("store-index".to_owned());
            let index = index.spawn_scoped(scope, take)?;
            let mut chunk = Vec::with_capacity(CHUNK);
            let loaded = records.load(now.floor, |job| {
                chunk.push(job);
                if chunk.len() == CHUNK {
                    let next = empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(CHUNK));
                    // Fails if the other thread has panicked, which `join` reports.
                    let _ = chunks.send(mem::replace(&mut chunk, next));
                }
            });
            let _ = chunks.send(chunk);
            drop(chunks);
            index.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked));
            Ok::<_, Box<dyn Error>>(loaded?)
        })?;
        let (schedules, damaged) = ScheduleIndex::load(&self.records)?;
        self.schedules = schedules;
        self.ahead = loaded.ahead;
        self.last_serial = loaded.last_serial;
        self.unreadable = loaded.unreadable + damaged;
        for job in loaded.damaged {
            let serial = job.serial;
            if !machines[buckets.of(&job.id).index()].load_damaged(now, job) {
                tracing::error!(serial, "skipped a damaged row that names another job");
                self.unreadable += 1;
            }
        }
        machines.iter_mut().for_each(Machine::finish_loading);
        if mem::take(&mut self.clock_set_by) != 0 {
            // The file may contain the ends of reservations from before or after the clock was set.
            // So each reservation gets a whole TTR again, which may end late but never early.
            for machine in machines {
                machine.renew_reservations(now, &mut self.writes);
                machine.keep_changes();
            }
        }
        self.repeat_counted();
        self.stale = false;
        Ok(())
    }
}

/// Adds the jobs to the index; returns each chunk, empty, to be filled again.
fn take_in(
    machines: &mut [Machine],
    (buckets, now): (Buckets, Now),
    chunks: &Receiver<Vec<Arrival>>,
    used: &Sender<Vec<Arrival>>,
) {
    for mut chunk in chunks {
        for job in chunk.drain(..) {
            machines[buckets.of(&job.id).index()].load(now, job);
        }
        // Fails after the last row was read.
        let _ = used.send(chunk);
    }
}
