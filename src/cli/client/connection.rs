//! The options of every client command: the server, the token, and the form of the output.

use std::{env, path::PathBuf};

use clap::Args;

use super::{
    context::{Context, Contexts},
    failure::{EXIT_CODES, Failure},
    http::Client,
    put::read,
    show::{Form, Output},
};
use crate::cli::remote::{Remote, TOKEN_VARIABLE, read_token};

const URL_VARIABLE: &str = "DELAY_QUEUE_URL";
const CA_FILE_VARIABLE: &str = "DELAY_QUEUE_CA_FILE";
const CONTEXT_VARIABLE: &str = "DELAY_QUEUE_CONTEXT";
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
    /// The server (http:// or https://host:port) [default: DELAY_QUEUE_URL, else the context, else
    /// http://127.0.0.1:9277]
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,

    /// The access token [default: DELAY_QUEUE_TOKEN, which other users of the machine cannot see]
    #[arg(long, global = true, value_name = "TOKEN")]
    token: Option<String>,

    /// The file whose first line is the access token
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,

    /// The authorities that may sign the certificate of the server (PEM), for https:// [default:
    /// DELAY_QUEUE_CA_FILE, else the authorities that this machine trusts]
    #[arg(long, global = true, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// The server, token and authorities of `delay-queue context add NAME` [default:
    /// DELAY_QUEUE_CONTEXT, else the context in use]
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "url")]
    context: Option<String>,

    /// The form of the output [default: a table on a terminal, JSON lines in a pipe]
    #[arg(short, long, global = true, value_name = "FORM")]
    output: Option<Form>,
}

impl Connection {
    /// Returns whether an option names a server.
    pub fn has_server(&self) -> bool {
        self.url.is_some() || self.context.is_some()
    }

    /// Returns the form of the output.
    pub fn output(&self) -> Output {
        Output::new(self.output)
    }

    /// Returns a client, which connects with its first request.
    pub fn client(&self) -> Result<Client, Failure> {
        let (url, remote) = self.remote()?;
        Ok(Client::new(remote, url, self.output()))
    }

    /// Returns the URL of the server, and the server. Options come before variables, and variables
    /// before the context in use. The token of a context is never sent to another URL.
    fn remote(&self) -> Result<(String, Remote), Failure> {
        let context = self.context()?;
        let is_named = self.context.is_some();
        let url_variable = variable(URL_VARIABLE).filter(|_| !is_named);
        let url = self.url.clone().or(url_variable);
        let context = context.filter(|_| url.is_none());
        let url = url.or_else(|| Some(context.as_ref()?.url.clone()));
        let url = url.unwrap_or_else(|| DEFAULT_URL.to_owned());
        let (token, ca_file) = match context {
            Some(context) => (context.token, context.ca_file),
            None => (None, None),
        };
        let of_context = token.map(|token| (token, "the token of the context"));
        let of_variable = variable(TOKEN_VARIABLE).map(|token| (token, TOKEN_VARIABLE));
        let given = match &self.token_file {
            Some(file) => Some((read(file)?, "--token-file")),
            None => self.token.clone().map(|token| (token, "--token")),
        };
        let token = given.or(first(is_named, of_context, of_variable));
        let token = token.map(|(token, from)| read_token(&token, from)).transpose();
        let token = token.map_err(Failure::Usage)?;
        // The variable is for all servers, also for those without TLS.
        let of_variable = variable(CA_FILE_VARIABLE).filter(|_| url.starts_with("https://"));
        let ca_file =
            self.ca_file.clone().or(first(is_named, ca_file, of_variable.map(Into::into)));
        let remote = Remote::with_token(&url, token, ca_file.as_deref());
        let remote = remote.map_err(|error| Failure::Usage(format!("{error}; got {url:?}")))?;
        Ok((url, remote))
    }

    /// Returns the context that an option or a variable names, or else the one in use.
    fn context(&self) -> Result<Option<Context>, Failure> {
        if self.url.is_some() {
            return Ok(None);
        }
        let variable = variable(CONTEXT_VARIABLE);
        if self.context.is_none() && variable.is_some() && self::variable(URL_VARIABLE).is_some() {
            let text =
                "DELAY_QUEUE_URL and DELAY_QUEUE_CONTEXT both name a server: unset one of them";
            return Err(Failure::Usage(text.to_owned()));
        }
        let contexts = Contexts::read;
        match (&self.context, variable) {
            (Some(name), _) => contexts()?.find(name, "--context").cloned().map(Some),
            (None, Some(name)) => contexts()?.find(&name, CONTEXT_VARIABLE).cloned().map(Some),
            (None, None) if self::variable(URL_VARIABLE).is_some() => Ok(None),
            (None, None) => {
                let contexts = contexts()?;
                let in_use = contexts.in_use.as_ref();
                in_use.map(|name| contexts.find(name, "context use").cloned()).transpose()
            }
        }
    }
}

/// Returns whether a variable or the context in use names a server.
pub fn has_default_server() -> bool {
    let is_in_use = || Contexts::read().is_ok_and(|contexts| contexts.in_use.is_some());
    [URL_VARIABLE, CONTEXT_VARIABLE].into_iter().any(|name| variable(name).is_some()) || is_in_use()
}

/// Returns the value of a variable, unless it is empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the value of the context if an option names the context, else of the variable, if both
/// have one.
fn first<T>(is_named: bool, of_context: Option<T>, of_variable: Option<T>) -> Option<T> {
    match is_named {
        true => of_context.or(of_variable),
        false => of_variable.or(of_context),
    }
}
