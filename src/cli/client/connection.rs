//! The options of every client command: the server, the token, and the form of the output.

use std::{env, path::PathBuf};

use clap::Args;

use super::{
    failure::{EXIT_CODES, Failure},
    http::Client,
    show::{Form, Output},
};
use crate::cli::remote::{Remote, TOKEN_VARIABLE, read_token};

const URL_VARIABLE: &str = "DELAY_QUEUE_URL";
const CA_FILE_VARIABLE: &str = "DELAY_QUEUE_CA_FILE";
const DEFAULT_URL: &str = "http://127.0.0.1:9277";

/// A command with the options of its connection.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Connected<T: Args> {
    #[command(flatten)]
    pub command: T,

    #[command(flatten)]
    pub connection: Connection,
}

/// Options of a connection.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection and output")]
pub struct Connection {
    /// The server (http:// or https://host:port) [default: DELAY_QUEUE_URL, else
    /// http://127.0.0.1:9277]
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,

    /// The access token [default: DELAY_QUEUE_TOKEN, which other users of the machine cannot see]
    #[arg(long, global = true, value_name = "TOKEN")]
    token: Option<String>,

    /// The authorities that may sign the certificate of the server (PEM), for https:// [default:
    /// DELAY_QUEUE_CA_FILE, else the authorities that this machine trusts]
    #[arg(long, global = true, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// The form of the output [default: a table on a terminal, JSON lines in a pipe]
    #[arg(short, long, global = true, value_name = "FORM")]
    output: Option<Form>,
}

impl Connection {
    /// Returns a client, which connects with its first request.
    pub fn client(&self) -> Result<Client, Failure> {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let url = self.url.clone().or_else(|| variable(URL_VARIABLE));
        let url = url.unwrap_or_else(|| DEFAULT_URL.to_owned());
        let token = match &self.token {
            Some(token) => Some(read_token(token, "--token")),
            None => variable(TOKEN_VARIABLE).map(|token| read_token(&token, TOKEN_VARIABLE)),
        };
        let token = token.transpose().map_err(Failure::Usage)?;
        let of_machine = || variable(CA_FILE_VARIABLE).filter(|_| url.starts_with("https://"));
        let ca_file = self.ca_file.clone().or_else(|| of_machine().map(Into::into));
        let remote = Remote::with_token(&url, token, ca_file.as_deref());
        let remote = remote.map_err(|error| Failure::Usage(format!("{error}; got {url:?}")))?;
        Ok(Client::new(remote, url, Output::new(self.output)))
    }
}
