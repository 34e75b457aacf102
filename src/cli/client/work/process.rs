//! The process of a command.

use std::{
    env,
    ffi::OsString,
    io::{self, IsTerminal, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::{sync::oneshot, time::timeout};

use super::{
    Work,
    job::Job,
    stream::{Keep, Stream},
};
use crate::job::MAX_RESULT_BYTES;

/// Time from SIGKILL to the end of a process.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Kept part of standard error, in bytes: the error of the job.
const ERROR_BYTES: usize = 4 << 10;
/// Kept part of standard output, in bytes: enough to see that a result is too large.
const RESULT_BYTES: usize = MAX_RESULT_BYTES + 1;

/// A running command, in its own process group.
pub struct Process {
    child: Child,
    pid: Pid,
    ended: oneshot::Receiver<()>,
    stdout: Option<Stream>,
    stderr: Stream,
}

/// End of a command.
pub struct Ended {
    pub status: ExitStatus,
    /// Standard output, if it was kept.
    pub result: String,
    error: String,
}

impl Process {
    /// Starts the command for a job. Its own group keeps Ctrl-C of a terminal from it.
    pub fn start(work: &Work, job: &Job) -> io::Result<Self> {
        let is_read = work.result || io::stdout().is_terminal();
        let mut command = Command::new(&work.command[0]);
        // A worker may itself run as the command of a job.
        let names = env::vars_os().map(|(name, _)| name);
        let is_of_job = |name: &OsString| name.to_string_lossy().starts_with("DELAY_QUEUE_JOB_");
        for name in names.filter(is_of_job) {
            command.env_remove(name);
        }
        let mut child = command
            .args(&work.command[1..])
            .envs(job.variables())
            .stdin(Stdio::piped())
            .stdout(if is_read { Stdio::piped() } else { Stdio::inherit() })
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let pid = Pid::from_child(&child);
        let (input, stdin) = (job.input(work.raw), child.stdin.take());
        thread::spawn(move || {
            if let Some(mut stdin) = stdin {
                // The command may end without reading.
                let _ = stdin.write_all(input.as_bytes());
            }
        });
        let prefix = format!("[{}] ", job.id);
        let stdout = child.stdout.take().map(|stdout| match work.result {
            true => {
                Stream::new(stdout, None::<io::Stdout>, String::new(), Keep::First(RESULT_BYTES))
            }
            false => Stream::new(stdout, Some(io::stdout()), prefix.clone(), Keep::Nothing),
        });
        let stderr = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let stderr = Stream::new(stderr, Some(io::stderr()), prefix, Keep::Last(ERROR_BYTES));
        let (end, ended) = oneshot::channel();
        thread::spawn(move || {
            // Does not reap the process, so that no signal can reach another one with its number.
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let _ = end.send(()); // the receiver may be gone
        });
        Ok(Self { child, pid, ended, stdout, stderr })
    }

    /// Waits until the process has ended.
    pub async fn ended(&mut self) {
        // An error means that the thread is gone, and it waits until the end.
        let _ = (&mut self.ended).await;
    }

    /// Reaps the process, and returns its output.
    pub async fn collect(mut self) -> io::Result<Ended> {
        let status = self.child.wait()?;
        let result = match self.stdout {
            Some(stdout) => stdout.kept().await,
            None => String::new(),
        };
        Ok(Ended { status, result, error: self.stderr.kept().await })
    }

    /// Ends the process and its group: SIGTERM, and after `grace` SIGKILL.
    pub async fn end(mut self, grace: Duration) -> io::Result<()> {
        // The group may have ended by itself.
        let _ = kill_process_group(self.pid, Signal::TERM);
        let in_time = timeout(grace, &mut self.ended).await.is_ok();
        let _ = kill_process_group(self.pid, Signal::KILL);
        let _ = self.child.kill();
        // A command that runs as another user cannot be killed.
        if !in_time && timeout(KILL_TIMEOUT, &mut self.ended).await.is_err() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it cannot be killed"));
        }
        self.child.wait().map(drop)
    }
}

impl Ended {
    /// Returns the last lines of standard error, or else how the command ended.
    pub fn error(&self) -> String {
        let mut start = self.error.len().saturating_sub(ERROR_BYTES);
        while !self.error.is_char_boundary(start) {
            start += 1;
        }
        match (&self.error[start..], self.status.code(), self.status.signal()) {
            ("", Some(code), _) => format!("the command ended with exit code {code}"),
            ("", None, Some(signal)) => format!("the command was killed by signal {signal}"),
            (error, ..) => error.to_owned(),
        }
    }
}
