//! Metrics of this process from the operating system, under the names that Prometheus defines.
//!
//! A system without `/proc`, the source of these metrics, has none of them.

use std::{fmt, fs};

use prometheus_client::{encoding::DescriptorEncoder, registry::Registry};
use rustix::{
    param::{clock_ticks_per_second, page_size},
    process::{Resource, getrlimit},
};

use super::{collect, one_counter, one_gauge};

/// Creates a registry of these metrics alone, since their names have no prefix.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    collect(&mut registry, "process", |encoder| match Process::read() {
        Some(process) => process.encode(encoder),
        None => Ok(()),
    });
    registry
}

struct Process {
    cpu_seconds: f64,
    threads: u64,
    start_time: f64,
    virtual_bytes: u64,
    resident_bytes: u64,
    open_fds: u64,
    max_fds: u64,
}

impl Process {
    fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The second field, the name of the program, may contain any characters.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // `number` is the field's number in proc(5), which counts from 1. The first of these fields
        // has number 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let ticks = clock_ticks_per_second() as f64;
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) as f64 / ticks,
            threads: field(20)?,
            start_time: boot_time()? + field(22)? as f64 / ticks,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * page_size() as u64,
            // Subtracts the descriptor that reads the folder.
            open_fds: (fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1),
            max_fds: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
        })
    }

    fn encode(self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let help = "User and system time spent.";
        one_counter(encoder, "process_cpu_seconds", help, self.cpu_seconds)?;
        one_gauge(encoder, "process_threads", "Threads.", self.threads)?;
        let help = "Unix time when the process started.";
        one_gauge(encoder, "process_start_time_seconds", help, self.start_time)?;
        let help = "Virtual memory.";
        one_gauge(encoder, "process_virtual_memory_bytes", help, self.virtual_bytes)?;
        let help = "Resident memory.";
        one_gauge(encoder, "process_resident_memory_bytes", help, self.resident_bytes)?;
        one_gauge(encoder, "process_open_fds", "Open file descriptors.", self.open_fds)?;
        one_gauge(
            encoder,
            "process_max_fds",
            "Maximum number of open file descriptors.",
            self.max_fds,
        )
    }
}

/// Returns when the machine was started, in Unix seconds.
fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}
