//! The process of a command.

use std::{
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

/// Kept part of standard error, in bytes: the error of the job.
const ERROR_BYTES: usize = 4 << 10;
/// Kept part of standard output, in bytes; the server refuses larger results.
const RESULT_BYTES: usize = 1 << 20;

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
        let mut child = Command::new(&work.command[0])
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
        if !in_time {
            // The thread reports the end, which SIGKILL makes certain.
            let _ = (&mut self.ended).await;
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
