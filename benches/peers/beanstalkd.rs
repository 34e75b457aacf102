//! A client of beanstalkd's own protocol (`doc/protocol.txt` of beanstalkd), with one job per
//! command.

use delay_queue_bench::{Destination, Failure, Jobs, Peer, Wire};

pub struct Beanstalkd {
    wire: Wire,
    /// Tube that this connection uses and watches.
    tube: String,
}

impl Beanstalkd {
    /// Sends a command. Returns the first line of the answer, and its length with the line end.
    async fn call(&mut self, command: &str) -> Result<(String, usize), Failure> {
        self.wire.send(command.as_bytes()).await?;
        loop {
            self.wire.read_more().await?;
            if let Some(end) = self.wire.read.windows(2).position(|two| two == b"\r\n") {
                let line = std::str::from_utf8(&self.wire.read[..end])?.to_owned();
                return Ok((line, end + 2));
            }
        }
    }

    async fn expect(&mut self, command: &str, answer: &str) -> Result<(), Failure> {
        let (line, _) = self.call(command).await?;
        match line.starts_with(answer) {
            true => Ok(()),
            false => Err(format!("beanstalkd answered {line:?} to {command:.100?}").into()),
        }
    }

    /// Uses and watches only this tube.
    async fn enter(&mut self, tube: &str) -> Result<(), Failure> {
        if self.tube != tube {
            self.expect(&format!("use {tube}\r\n"), "USING").await?;
            self.expect(&format!("watch {tube}\r\n"), "WATCHING").await?;
            let previous = std::mem::replace(&mut self.tube, tube.to_owned());
            self.expect(&format!("ignore {previous}\r\n"), "WATCHING").await?;
        }
        Ok(())
    }

    /// Sends a command and deletes the job that it returns. Returns whether there was a job.
    async fn delete_returned(&mut self, command: &str) -> Result<bool, Failure> {
        let (line, end) = self.call(command).await?;
        let fields: Vec<&str> = line.split(' ').collect();
        let (id, bytes) = match fields[..] {
            ["RESERVED" | "FOUND", id, bytes] => (id, bytes),
            ["TIMED_OUT" | "NOT_FOUND"] => return Ok(false),
            _ => return Err(format!("beanstalkd answered {line:?} to {command:?}").into()),
        };
        let whole = end + bytes.parse::<usize>()? + 2;
        while self.wire.read.len() < whole {
            self.wire.read_more().await?;
        }
        self.expect(&format!("delete {id}\r\n"), "DELETED").await?;
        Ok(true)
    }
}

impl Peer for Beanstalkd {
    async fn connect(to: &Destination) -> Result<Self, Failure> {
        Ok(Self { wire: Wire::connect(to).await?, tube: "default".to_owned() })
    }

    async fn put(&mut self, topic: &str, jobs: &Jobs, count: u64) -> Result<(), Failure> {
        self.enter(topic).await?;
        let (body, delay) = (&jobs.body, jobs.due_in.as_secs());
        let command = format!("put 0 {delay} 60 {}\r\n{body}\r\n", body.len());
        for _ in 0..count {
            self.expect(&command, "INSERTED").await?;
        }
        Ok(())
    }

    async fn pop_and_finish(&mut self, topic: &str, count: u64, wait: u64) -> Result<u64, Failure> {
        self.enter(topic).await?;
        for done in 0..count {
            let wait = if done == 0 { wait } else { 0 };
            if !self.delete_returned(&format!("reserve-with-timeout {wait}\r\n")).await? {
                return Ok(done);
            }
        }
        Ok(count)
    }

    async fn purge(&mut self, topics: &[&str]) -> Result<(), Failure> {
        for topic in topics {
            self.enter(topic).await?;
            for command in ["peek-ready\r\n", "peek-delayed\r\n"] {
                while self.delete_returned(command).await? {}
            }
        }
        Ok(())
    }
}
