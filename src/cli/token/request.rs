//! One request to a running server, over HTTP or HTTPS.

use std::{
    error::Error,
    io::{self, Read, Write},
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConnection, StreamOwned};
use serde_json::Value;

use crate::cli::{connect::connect, remote::Remote};

/// Timeout of each step: connecting, sending the request, reading the answer.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Remote {
    /// Sends a request and returns the JSON of a successful answer.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Box<dyn Error>> {
        let failed = |cause: io::Error| {
            let cause = Self::explain(&cause);
            format!("failed to send the request to {}: {cause}", self.server)
        };
        let answer = self.send(method, path, body).map_err(failed)?;
        let (head, json) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).unwrap_or_default();
        let json: Value = serde_json::from_str(json).unwrap_or_default();
        match status.starts_with('2') {
            true => Ok(json),
            false => {
                let detail =
                    json["detail"].as_str().unwrap_or(head.lines().next().unwrap_or_default());
                Err(format!("{} answered {status}: {detail}", self.server).into())
            }
        }
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<String> {
        let body = body.map(Value::to_string).unwrap_or_default();
        // HTTP/1.0, so that the server marks the end of the answer by closing the connection.
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: {}\r\n{}Content-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.server,
            self.authorization(),
            body.len(),
        );
        let stream = connect(&self.server, TIMEOUT)?;
        match &self.tls {
            None => exchange(stream, &request),
            Some((config, name)) => {
                let tls = ClientConnection::new(Arc::clone(config), name.clone());
                exchange(StreamOwned::new(tls.map_err(io::Error::other)?, stream), &request)
            }
        }
    }
}

fn exchange(mut stream: impl Read + Write, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
