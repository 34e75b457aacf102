//! Resources of a process, read from /proc.

use std::fs;

#[derive(Debug, Clone, Copy)]
pub struct Vitals {
    pub memory_kib: u64,
    pub sockets: usize,
}

pub fn vitals(pid: u32) -> Vitals {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is running");
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let memory = memory.and_then(|text| text.trim().strip_suffix(" kB")?.trim().parse().ok());
    let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is running");
    let socket = |name: std::path::PathBuf| name.to_string_lossy().starts_with("socket:");
    let targets = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    Vitals {
        memory_kib: memory.expect("the kernel reports VmRSS"),
        sockets: targets.filter(|name| socket(name.clone())).count(),
    }
}
