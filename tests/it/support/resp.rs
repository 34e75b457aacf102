//! A client of Redis' protocol with the features that tests need: one command, one answer of any
//! length.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Text(String),
    Number(i64),
    Many(Vec<Reply>),
    Nothing,
    Error(String),
}

impl Reply {
    /// Returns the text, or an empty text for another kind of answer.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    pub fn texts(&self) -> Vec<String> {
        self.list().iter().map(|reply| reply.text().to_owned()).collect()
    }

    pub fn list(&self) -> &[Self] {
        match self {
            Self::Many(replies) => replies,
            _ => &[],
        }
    }
}

pub struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Connects to a port of loopback; `None` if no server listens there.
    pub fn to(port: u16) -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        // With a timeout, a hanging process fails its test instead of blocking it.
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        Some(Self(BufReader::new(stream)))
    }

    /// Sends a command and reads its answer; `None` if the connection breaks.
    pub fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Option<Reply> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            command.extend(format!("${}\r\n", word.len()).bytes());
            command.extend([word, b"\r\n"].concat());
        }
        self.0.get_mut().write_all(&command).ok()?;
        self.next()
    }

    /// Waits for an answer, also without a request, as after MONITOR.
    pub fn next(&mut self) -> Option<Reply> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        let (kind, rest) = line.trim_end().split_at_checked(1)?;
        let rest = rest.to_owned();
        match kind {
            "+" => Some(Reply::Text(rest)),
            "-" => Some(Reply::Error(rest)),
            ":" => rest.parse().ok().map(Reply::Number),
            _ if rest == "-1" => Some(Reply::Nothing),
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().ok()? + 2];
                self.0.read_exact(&mut bytes).ok()?;
                bytes.truncate(bytes.len() - 2); // the end of line
                Some(Reply::Text(String::from_utf8_lossy(&bytes).into_owned()))
            }
            "*" => {
                let count = rest.parse().ok()?;
                (0..count).map(|_| self.next()).collect::<Option<_>>().map(Reply::Many)
            }
            _ => None,
        }
    }
}

/// Sends one command on a new connection.
pub fn ask(port: u16, words: &[&str]) -> Option<Reply> {
    Connection::to(port)?.ask(words)
}

/// Sends one command on a new connection, after an AUTH.
pub fn ask_with_password(port: u16, password: &str, words: &[&str]) -> Option<Reply> {
    let mut connection = Connection::to(port)?;
    connection.ask(&["AUTH", password])?;
    connection.ask(words)
}
