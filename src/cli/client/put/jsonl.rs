//! `put --jsonl`: whole puts, one a line, in batches.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal},
    path::{Path, PathBuf},
};

use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    cli::{
        client::{
            failure::{Failure, Problem, complain},
            http::{Client, Request},
            show::Form,
        },
        moving::Progress,
    },
    job::JobId,
};

/// Jobs of a batch at most, as the API allows.
const MAX_JOBS: usize = 1_000;
/// Size of a batch from which it is sent, in bytes, below the usual limit of a request.
const FULL_BYTES: usize = 4 << 20;

/// Options of lines of jobs.
#[derive(Debug, Args)]
pub struct Lines {
    /// Put the jobs in this file, one JSON object with a topic a line; - reads standard input
    #[arg(long, value_name = "FILE")]
    jsonl: Option<PathBuf>,

    /// Continue after a refused line
    #[arg(long, requires = "jsonl")]
    pub keep_going: bool,
}

impl Lines {
    pub fn source(&self) -> Option<&Path> {
        self.jsonl.as_deref()
    }
}

/// Numbered lines that are sent in one request.
#[derive(Default)]
struct Batch {
    lines: Vec<(u64, String)>,
    bytes: usize,
}

/// A put in progress.
struct Putting<'a> {
    client: &'a Client,
    keep_going: bool,
    progress: Option<Progress>,
    put: u64,
    refused: u64,
}

/// The id in a line.
#[derive(Deserialize)]
struct Identified {
    id: Option<JobId>,
}

#[derive(Deserialize)]
struct Results {
    results: Vec<Box<RawValue>>,
}

/// Puts the jobs of all lines. Stops at the first refusal, unless `keep_going`.
pub async fn put(client: &Client, source: &Path, keep_going: bool) -> Result<(), Failure> {
    let failed = |cause| Failure::Usage(format!("failed to read {}: {cause}", source.display()));
    let reader: Box<dyn BufRead> = match source == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(BufReader::new(File::open(source).map_err(failed)?)),
    };
    let progress = io::stderr().is_terminal().then(|| Progress::new("put", None));
    let mut putting = Putting { client, keep_going, progress, put: 0, refused: 0 };
    let mut batch = Batch::default();
    for (number, line) in (1..).zip(reader.split(b'\n')) {
        let line = match line {
            Ok(line) => line,
            Err(cause) => {
                putting.flush(&mut batch).await?;
                return Err(failed(cause));
            }
        };
        if line.trim_ascii().is_empty() {
            continue;
        }
        let line = match json(line) {
            Ok(line) => line,
            Err(cause) => {
                putting.flush(&mut batch).await?;
                putting.refuse(number, &cause)?;
                continue;
            }
        };
        batch.bytes += line.len();
        batch.lines.push((number, line));
        if batch.lines.len() == MAX_JOBS || batch.bytes >= FULL_BYTES {
            putting.flush(&mut batch).await?;
        }
    }
    putting.flush(&mut batch).await?;
    putting.end()
}

impl Putting<'_> {
    /// Sends the lines of a batch: in halves if they are too large, and again without a line that
    /// made the server refuse all of them.
    async fn flush(&mut self, batch: &mut Batch) -> Result<(), Failure> {
        while !batch.lines.is_empty() {
            let jobs: Vec<&str> = batch.lines.iter().map(|(_, line)| line.as_str()).collect();
            let body = format!("{{\"jobs\":[{}]}}", jobs.join(","));
            match self.client.send(Request::post("/batch/jobs").body(body)).await {
                Ok(answer) => {
                    let lines = std::mem::take(batch).lines;
                    self.take(&lines, &answer)?;
                }
                Err(Failure::Refused(problem)) => match refused_index(&problem) {
                    Some(index) if index < batch.lines.len() => {
                        let (number, _) = batch.lines.remove(index);
                        self.refuse(number, &explain(&problem, index))?;
                    }
                    // The server accepts smaller requests only.
                    _ if problem.status == 413 && batch.lines.len() > 1 => {
                        let later = batch.lines.split_off(batch.lines.len() / 2);
                        Box::pin(self.flush(batch)).await?;
                        batch.lines = later;
                    }
                    _ if problem.status == 413 => {
                        let (number, _) = batch.lines.remove(0);
                        self.refuse(number, &problem.to_string())?;
                    }
                    _ => return Err(Failure::Refused(problem)),
                },
                Err(Failure::Unreachable(cause)) => {
                    let (first, last) = (batch.lines[0].0, batch.lines[batch.lines.len() - 1].0);
                    let put = self.put;
                    return Err(Failure::Unreachable(format!(
                        "{cause}; lines {first} to {last} may have been put, before them {put} jobs"
                    )));
                }
                Err(failure) => return Err(failure),
            }
        }
        batch.bytes = 0;
        Ok(())
    }

    /// Prints the jobs that were put, and reports the refusals.
    fn take(&mut self, lines: &[(u64, String)], answer: &[u8]) -> Result<(), Failure> {
        let results: Results = serde_json::from_slice(answer)
            .map_err(|cause| Failure::Unreachable(format!("the answer is no batch: {cause}")))?;
        let (mut put, mut refused) = (Vec::new(), Vec::new());
        for (index, ((number, line), result)) in lines.iter().zip(results.results).enumerate() {
            match serde_json::from_str::<Problem>(result.get()) {
                Ok(problem) if problem.status >= 400 => {
                    let id = serde_json::from_str::<Identified>(line).ok().and_then(|line| line.id);
                    refused.push((*number, explain(&problem.of_put(id.as_ref()), index)));
                }
                _ => put.push(result),
            }
        }
        self.put += put.len() as u64;
        if self.client.output.form != Form::Table {
            self.client.output.rows(&[], &put)?;
        }
        if let Some(progress) = &mut self.progress {
            progress.report(self.put);
        }
        refused.iter().try_for_each(|(number, why)| self.refuse(*number, why))
    }

    /// Reports a refused line.
    ///
    /// # Errors
    /// The put stops at the first refusal.
    fn refuse(&mut self, number: u64, why: &str) -> Result<(), Failure> {
        self.refused += 1;
        let text = format!("line {number}: {why}");
        if self.keep_going {
            complain(text);
            return Ok(());
        }
        Err(Failure::Reported(format!("{text}; jobs that were put: {}", self.put)))
    }

    fn end(self) -> Result<(), Failure> {
        drop(self.progress);
        match self.refused {
            0 => Ok(()),
            refused => {
                let text = format!("refused lines: {refused}; jobs that were put: {}", self.put);
                Err(Failure::Reported(text))
            }
        }
    }
}

/// Returns the text of a line of JSON.
fn json(line: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(line).map_err(|_| "is not UTF-8".to_owned())?;
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(_) => Ok(text),
        Err(cause) => Err(format!("is not JSON: {cause}")),
    }
}

/// Describes a refusal, with the names of fields as they are in the line.
fn explain(problem: &Problem, index: usize) -> String {
    problem.to_string().replace(&format!("jobs[{index}]."), "")
}

/// Returns the index of the job whose field is wrong: 3 for `jobs[3].delay`.
fn refused_index(problem: &Problem) -> Option<usize> {
    let rest = problem.field.as_deref()?.strip_prefix("jobs[")?;
    rest.split(']').next()?.parse().ok()
}
