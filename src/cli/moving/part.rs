//! The output of an export: FILE.part, which becomes FILE when it is complete; or standard output.

use std::{
    error::Error,
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufWriter, Seek, SeekFrom, Stdout, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use super::{line::Line, reader::Sums};
use crate::cli::output;

type StoreResult<T> = Result<T, Box<dyn Error>>;

/// The lines written so far, with their sums.
pub struct Part {
    target: Target,
    pub sums: Sums,
    text: Vec<u8>,
}

enum Target {
    File { part: PathBuf, file: PathBuf, out: BufWriter<File> },
    StandardOutput(BufWriter<Stdout>),
}

impl Part {
    /// Opens and locks FILE.part; empties it if `start_over`.
    pub fn open(file: &Path, start_over: bool) -> StoreResult<Self> {
        let mut path = OsString::from(file);
        path.push(".part");
        let path = PathBuf::from(path);
        let shown = path.display();
        let mut options = OpenOptions::new();
        // Only the exporting user may read the bodies, whatever the umask is.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let opened = options.open(&path);
        let out = opened.map_err(|cause| format!("failed to write {shown}: {cause}"))?;
        match out.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!(
                    "failed to export: another export is writing {shown}; wait until it has ended"
                )
                .into());
            }
            Err(TryLockError::Error(cause)) => {
                return Err(format!("failed to lock {shown}: {cause}").into());
            }
        }
        if start_over {
            out.set_len(0)?;
        }
        let (file, out) = (file.to_owned(), BufWriter::new(out));
        Ok(Self::new(Target::File { part: path, file, out }))
    }

    pub fn standard_output() -> Self {
        Self::new(Target::StandardOutput(BufWriter::new(io::stdout())))
    }

    fn new(target: Target) -> Self {
        Self { target, sums: Sums::default(), text: Vec::new() }
    }

    pub fn name(&self) -> String {
        match &self.target {
            Target::File { part, .. } => part.display().to_string(),
            Target::StandardOutput(_) => "standard output".to_owned(),
        }
    }

    /// Returns the advice to start over, for messages.
    pub fn start_over(&self) -> &'static str {
        match self.target {
            Target::File { .. } => "start over with --force",
            Target::StandardOutput(_) => "start over",
        }
    }

    /// Opens FILE.part for reading, to find the lines of an earlier export.
    pub fn open_for_reading(&self) -> StoreResult<Option<File>> {
        match &self.target {
            Target::File { part, .. } => Ok(Some(File::open(part)?)),
            Target::StandardOutput(_) => Ok(None),
        }
    }

    pub fn write(&mut self, line: &Line<'_>) -> StoreResult<()> {
        self.text.clear();
        serde_json::to_writer(&mut self.text, line)?;
        self.text.push(b'\n');
        self.sums.add(line, &self.text);
        let out: &mut dyn Write = match &mut self.target {
            Target::File { out, .. } => out,
            Target::StandardOutput(out) => out,
        };
        out.write_all(&self.text).map_err(|cause| self.failed(&cause))
    }

    /// Continues writing after the lines that `sums` counts; removes all later lines from the file.
    pub fn resume_at(&mut self, sums: Sums) -> StoreResult<()> {
        let done = match &mut self.target {
            Target::File { out, .. } => {
                let end = sums.bytes;
                out.flush().and_then(|()| {
                    let file = out.get_mut();
                    file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end))).map(drop)
                })
            }
            Target::StandardOutput(_) => Ok(()),
        };
        self.sums = sums;
        done.map_err(|cause| self.failed(&cause))
    }

    /// Syncs the file to disk and renames it to FILE, then prints `summary` and the destination: on
    /// standard output, or on standard error if the export itself uses standard output.
    pub fn finish(mut self, summary: &str) -> StoreResult<()> {
        match self.flush() {
            Ok(()) => {}
            Err(cause) => return Err(self.failed(&cause)),
        }
        match &self.target {
            Target::File { file, .. } => {
                output::line(format_args!("{summary} to {}", file.display()))?;
            }
            Target::StandardOutput(_) => eprintln!("{summary} to standard output"),
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.target {
            Target::File { part, file, out } => {
                out.flush()?;
                out.get_ref().sync_all()?;
                fs::rename(part.as_path(), file.as_path())?;
                let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
                File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
            }
            Target::StandardOutput(out) => out.flush(),
        }
    }

    fn failed(&self, cause: &io::Error) -> Box<dyn Error> {
        let name = self.name();
        match self.target {
            Target::File { .. } => {
                format!("failed to write {name}: {cause}; run the same export again to continue")
                    .into()
            }
            Target::StandardOutput(_) => format!("failed to write {name}: {cause}").into(),
        }
    }
}
