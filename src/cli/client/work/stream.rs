//! The output of a command: forwarded line by line, and kept as far as the job needs it.

use std::{
    io::{self, BufRead, BufReader, IsTerminal, Read, Write},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

/// Longest part of a line that is forwarded at once, in bytes.
const LONGEST_LINE: u64 = 64 << 10;
/// Time to wait for the rest of the output after the end of the command. Processes that it started
/// may hold its output open.
const REST: Duration = Duration::from_secs(1);

/// Kept part of an output.
pub enum Keep {
    /// The last bytes.
    Last(usize),
    /// The first bytes.
    First(usize),
    Nothing,
}

/// An output that a thread reads.
pub struct Stream {
    kept: Arc<Mutex<Vec<u8>>>,
    end: oneshot::Receiver<()>,
}

impl Stream {
    /// Reads `from` in a thread. Forwards it to `to`; on a terminal, `prefix` precedes each line.
    pub fn new<W: Write + IsTerminal + Send + 'static>(
        from: impl Read + Send + 'static,
        to: Option<W>,
        prefix: String,
        keep: Keep,
    ) -> Self {
        let (ended, end) = oneshot::channel();
        let kept = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&kept);
        thread::spawn(move || {
            let prefix = if to.as_ref().is_some_and(IsTerminal::is_terminal) {
                prefix
            } else {
                String::new()
            };
            // The command may have closed its output.
            let _ = copy(from, to, &prefix, |line| {
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                match keep {
                    Keep::Last(most) => {
                        kept.extend_from_slice(line);
                        let surplus = kept.len().saturating_sub(most);
                        kept.drain(..surplus);
                    }
                    Keep::First(most) => {
                        let room = most.saturating_sub(kept.len()).min(line.len());
                        kept.extend_from_slice(&line[..room]);
                    }
                    Keep::Nothing => {}
                }
            });
            // The receiver may have stopped to wait.
            let _ = ended.send(());
        });
        Self { kept, end }
    }

    /// Waits for the end of the output. Returns the part that was kept.
    pub async fn kept(self) -> String {
        // After the timeout, the output so far counts.
        let _ = timeout(REST, self.end).await;
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).trim().to_owned()
    }
}

fn copy(
    from: impl Read,
    mut to: Option<impl Write>,
    prefix: &str,
    mut keep: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? > 0 {
        keep(&line);
        if let Some(to) = &mut to {
            // One write a line, so that the lines of several jobs do not mix. A closed output must
            // not stop the command.
            let _ = to.write_all(&[prefix.as_bytes(), &line].concat()).and_then(|()| to.flush());
        }
        line.clear();
    }
    Ok(())
}
