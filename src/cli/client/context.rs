//! `context`: servers by name, so that commands need no URL and no token.

mod file;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::value::{RawValue, to_raw_value};

pub use self::file::{Context, Contexts};
use super::{
    failure::{Failure, complain},
    put::read,
    show::{Form, Output},
};
use crate::cli::remote::{Remote, read_token};

/// Servers by name.
#[derive(Debug, Args)]
#[command(after_help = super::EXIT_CODES)]
pub struct Command {
    #[command(subcommand)]
    action: Action,

    /// The form of the output [default: a table on a terminal, JSON lines in a pipe]
    #[arg(short, long, global = true, value_name = "FORM")]
    output: Option<Form>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add a context, or replace the one of this name; the first one is in use at once
    Add(Add),
    /// Use a context in commands that name no server
    Use {
        /// The name of the context
        name: String,
    },
    /// Print the contexts, without their tokens
    List,
    /// Remove a context
    Remove {
        /// The name of the context
        name: String,
    },
}

#[derive(Debug, Args)]
struct Add {
    /// The name of the context
    #[arg(value_parser = name)]
    name: String,
    /// The server (http:// or https://host:port)
    #[arg(long, value_name = "URL")]
    url: String,
    /// The file whose first line is the token; - reads standard input [default: no token]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The access token; other users of the machine can see it meanwhile, unlike --token-file
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    token: Option<String>,
    /// The authorities that may sign the certificate of the server (PEM), for https://
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

fn name(text: &str) -> Result<String, String> {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    match (1..=64).contains(&text.len()) && text.bytes().all(is_allowed) {
        true => Ok(text.to_owned()),
        false => Err("must have 1 to 64 characters of A-Z a-z 0-9 . _ -".to_owned()),
    }
}

impl Command {
    pub fn run(self) -> Result<(), Failure> {
        let mut contexts = Contexts::read()?;
        let mut notice = None;
        match self.action {
            Action::Add(add) => {
                let name = add.name.clone();
                let context = add.context()?;
                if contexts.contexts.is_empty() {
                    contexts.in_use = Some(name.clone());
                    notice = Some(format!("commands use the context {name}"));
                }
                contexts.contexts.insert(name, context);
            }
            Action::Use { name } => {
                contexts.find(&name, "use")?;
                contexts.in_use = Some(name);
            }
            Action::Remove { name } => {
                contexts.find(&name, "remove")?;
                contexts.contexts.remove(&name);
                if contexts.in_use.as_ref() == Some(&name) {
                    contexts.in_use = None;
                    notice = Some(format!("{name} was in use: choose another with `context use`"));
                }
            }
            Action::List => return list(&contexts, &Output::new(self.output)),
        }
        contexts.write()?;
        notice.iter().for_each(complain);
        Ok(())
    }
}

impl Add {
    /// Checks the values as a command that uses them will.
    fn context(self) -> Result<Context, Failure> {
        let token = match (self.token, &self.token_file) {
            (Some(token), _) => Some((token, "--token")),
            (None, Some(file)) => Some((read(file)?, "--token-file")),
            (None, None) => None,
        };
        let token = token.map(|(text, from)| read_token(&text, from)).transpose();
        let token = token.map_err(Failure::Usage)?;
        let text = token.as_ref().map(|token| token.reveal().to_owned());
        // Commands run in other folders.
        let ca_file = self.ca_file.map(std::path::absolute).transpose()?;
        let remote = Remote::with_token(&self.url, token, ca_file.as_deref());
        let wrong = |error| Failure::Usage(format!("{error}; got {:?}", self.url));
        remote.map_err(wrong)?;
        Ok(Context { url: self.url, token: text, ca_file })
    }
}

/// Prints the contexts. A table marks the one in use.
fn list(contexts: &Contexts, output: &Output) -> Result<(), Failure> {
    let row = |(name, context): (&String, &Context)| {
        to_raw_value(&serde_json::json!({
            "name": name, "in_use": contexts.in_use.as_ref() == Some(name), "url": context.url,
            "has_token": context.token.is_some(), "ca_file": context.ca_file,
        }))
    };
    let rows: Result<Vec<Box<RawValue>>, _> = contexts.contexts.iter().map(row).collect();
    let rows = rows.map_err(|cause| Failure::Usage(cause.to_string()))?;
    output.rows(&["name", "in_use", "url", "has_token", "ca_file"], &rows)
}
