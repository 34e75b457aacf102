//! Connections to the program under test: a delay-queue server, or another implementation of
//! [`Peer`].

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de};

use super::{
    Failure,
    client::{Client, Destination, NoAnswer},
    jobs::{self, Due, Jobs},
};

/// A connection to a job queue.
#[expect(async_fn_in_trait, reason = "one thread runs a whole bench, so no future has to be Send")]
pub trait Peer: Sized {
    /// Opens a connection.
    ///
    /// # Errors
    /// The program does not answer.
    async fn connect(to: &Destination) -> Result<Self, Failure>;

    /// Puts `count` jobs, due after [`Jobs::due_in`].
    ///
    /// # Errors
    /// The connection broke, or the program refuses a job.
    async fn put(&mut self, topic: &str, jobs: &Jobs, count: u64) -> Result<(), Failure>;

    /// Pops up to `count` jobs, waiting up to `wait` seconds for the first, and finishes them;
    /// returns their number.
    ///
    /// # Errors
    /// The connection broke, or the program refuses.
    async fn pop_and_finish(&mut self, topic: &str, count: u64, wait: u64) -> Result<u64, Failure>;

    /// Removes every job of some topics.
    ///
    /// # Errors
    /// The connection broke, or the program refuses.
    async fn purge(&mut self, topics: &[&str]) -> Result<(), Failure>;
}

/// A connection to delay-queue.
pub struct Server {
    client: Client,
    /// Buffer of request bodies, kept to save allocations.
    text: String,
}

#[derive(Deserialize)]
struct Popped {
    jobs: Vec<PoppedJob>,
}

/// A popped job, with the fields that the bench needs.
#[derive(Deserialize)]
pub struct PoppedJob {
    id: String,
    reservation: String,
    /// Due time, in milliseconds since 1970.
    #[serde(deserialize_with = "unix_millis")]
    pub due_at: u64,
}

/// Deserializes a time in RFC 3339.
fn unix_millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = Cow::<str>::deserialize(deserializer)?;
    let time = text.parse::<jiff::Timestamp>().map_err(de::Error::custom)?;
    u64::try_from(time.as_millisecond()).map_err(de::Error::custom)
}

impl PoppedJob {
    pub fn number(&self) -> Result<u64, Failure> {
        jobs::number(&self.id)
    }
}

impl Server {
    /// Puts jobs with the given due times, in milliseconds since 1970, in one request.
    pub async fn put_at(
        &mut self,
        topic: &str,
        jobs: &Jobs,
        due: impl Iterator<Item = u64>,
    ) -> Result<(), Failure> {
        self.text.clear();
        for due in due {
            self.next_item();
            jobs.write(&mut self.text, topic, Due::At(due))?;
        }
        self.batch("/batch/jobs").await
    }

    pub async fn pop(
        &mut self,
        topic: &str,
        count: u64,
        wait: u64,
    ) -> Result<Vec<PoppedJob>, Failure> {
        let path = format!("/topics/{topic}/pop?count={count}&wait={wait}");
        let answer = self.client.call("GET", &path, b"").await?;
        Ok(serde_json::from_slice::<Popped>(answer)?.jobs)
    }

    /// Finishes jobs: a single job by the route of a job, several jobs by a batch.
    pub async fn finish(&mut self, jobs: &[PoppedJob]) -> Result<(), Failure> {
        if let [PoppedJob { id, reservation, .. }] = jobs {
            let path = format!("/jobs/{id}/finish?reservation={reservation}");
            return self.client.call("POST", &path, b"").await.map(drop);
        }
        use std::fmt::Write;

        self.text.clear();
        for PoppedJob { id, reservation, .. } in jobs {
            self.next_item();
            write!(self.text, r#"{{"id":"{id}","reservation":"{reservation}"}}"#)?;
        }
        self.batch("/batch/finish").await
    }

    /// Begins the batch in the buffer, or separates its next item.
    fn next_item(&mut self) {
        self.text.push_str(if self.text.is_empty() { r#"{"jobs":["# } else { "," });
    }

    /// Ends and sends the batch in the buffer; fails if the server refused any of its jobs.
    async fn batch(&mut self, path: &str) -> Result<(), Failure> {
        self.text.push_str("]}");
        let answer = self.client.call("POST", path, self.text.as_bytes()).await?;
        let refused = answer.windows(11).position(|text| text == br#""applied":""#);
        match refused {
            None => Ok(()),
            Some(_) => {
                let answer = String::from_utf8_lossy(answer);
                Err(format!("{path} refused jobs: {answer:.500}").into())
            }
        }
    }
}

impl Peer for Server {
    async fn connect(to: &Destination) -> Result<Self, Failure> {
        Ok(Self { client: Client::connect(to).await?, text: String::new() })
    }

    async fn put(&mut self, topic: &str, jobs: &Jobs, count: u64) -> Result<(), Failure> {
        self.text.clear();
        if count == 1 {
            jobs.write(&mut self.text, topic, Due::In(jobs.due_in))?;
            return self.client.call("POST", "/jobs", self.text.as_bytes()).await.map(drop);
        }
        for _ in 0..count {
            self.next_item();
            jobs.write(&mut self.text, topic, Due::In(jobs.due_in))?;
        }
        self.batch("/batch/jobs").await
    }

    async fn pop_and_finish(&mut self, topic: &str, count: u64, wait: u64) -> Result<u64, Failure> {
        let jobs = self.pop(topic, count, wait).await?;
        if !jobs.is_empty() {
            self.finish(&jobs).await?;
        }
        Ok(jobs.len() as u64)
    }

    /// Purges until no job is left, since the server may still execute a request that timed out.
    async fn purge(&mut self, topics: &[&str]) -> Result<(), Failure> {
        #[derive(Deserialize)]
        struct Answer {
            purged: u64,
        }

        for topic in topics {
            let path = format!("/topics/{topic}/jobs");
            loop {
                match self.client.call("DELETE", &path, b"").await {
                    Ok(answer) if serde_json::from_slice::<Answer>(answer)?.purged == 0 => break,
                    Ok(_) => {}
                    // A purge of millions of jobs may take longer than the timeout of an answer.
                    Err(error) if error.is::<NoAnswer>() => self.client.reconnect().await?,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}
