//! A running server, asked over plain HTTP.

use std::{
    error::Error,
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    time::Duration,
};

use serde_json::Value;

use crate::{access::SecretToken, config::Listen};

/// How long connecting, asking and answering may each take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The variable that has the token; it is no setting of the server's.
pub const VARIABLE: &str = "DELAY_QUEUE_TOKEN";

pub struct Remote {
    server: Listen,
    token: Option<SecretToken>,
}

impl Remote {
    pub fn new(url: &str, token_file: Option<&Path>) -> Result<Self, Box<dyn Error>> {
        let allowed = "--url must be http://host:port; a server behind TLS is asked on its own machine, \
                       or leave --url out and give the store";
        let host = url.strip_prefix("http://").ok_or(allowed)?.trim_end_matches('/');
        let server = Listen::try_from(host.to_owned()).map_err(|_| allowed)?;
        let (text, from) = match token_file {
            Some(file) => {
                let failed =
                    |error| format!("failed to read {} (--token-file): {error}", file.display());
                (Some(fs::read_to_string(file).map_err(failed)?), "--token-file")
            }
            None => (std::env::var(VARIABLE).ok(), VARIABLE),
        };
        let first = text.as_deref().map(|text| text.lines().next().unwrap_or_default().trim());
        let token = first.map(str::parse).transpose().map_err(|error| format!("{from} {error}"))?;
        Ok(Self { server, token })
    }

    /// The JSON of a good answer.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Box<dyn Error>> {
        let failed = |cause| format!("failed to ask {}: {cause}", self.server);
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

    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> std::io::Result<String> {
        let mut failed = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
        for address in self.server.addresses()? {
            let mut stream = match TcpStream::connect_timeout(&address, TIMEOUT) {
                Ok(stream) => stream,
                Err(cause) => {
                    failed = cause;
                    continue;
                }
            };
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            let token = self
                .token
                .as_ref()
                .map(|token| format!("Authorization: Bearer {}\r\n", token.reveal()));
            let body = body.map(Value::to_string).unwrap_or_default();
            // HTTP/1.0: the answer is one text to its end.
            write!(
                stream,
                "{method} {path} HTTP/1.0\r\nHost: {}\r\n{}Content-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                self.server,
                token.unwrap_or_default(),
                body.len(),
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            return Ok(answer);
        }
        Err(failed)
    }
}
