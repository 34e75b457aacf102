//! `delay-queue token`: manages access tokens, in the configured store or through a running server.

use std::error::Error;

use clap::{Args, Subcommand};
use hyper::Method;
use serde::Deserialize;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

use crate::{
    access::{Scope, Scopes, SecretToken, TokenName, Tokens},
    cli::{
        client::{self, Client, Connection, Output, Request},
        output,
    },
    config::Settings,
    job::{Millis, TopicPattern, UnixMillis},
    server::{StartError, open_existing_store, open_store},
    store::{Clock, OpenError},
};

/// Create, list and revoke access tokens, in the configured store or through a running server
///
/// The command goes to the server that --url, --context, DELAY_QUEUE_URL or DELAY_QUEUE_CONTEXT
/// names, or to that of the context in use. Without one, or if --store or --config is given, it
/// opens the configured store.
#[derive(Debug, Args)]
#[command(after_help = client::EXIT_CODES)]
pub struct Token {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a token and print it, alone, on standard output: it is shown only once
    Create {
        /// Name of the new token
        #[arg(long)]
        name: TokenName,
        /// A scope and its topics: put=billing.*, pop=mail,sms, cancel=*, read=*, manage=*,
        /// push=*, or admin. Repeat the option for further scopes
        #[arg(long = "scope", required = true, value_parser = scope)]
        scopes: Vec<(Scope, Vec<TopicPattern>)>,
        /// Time until the token expires, with a unit: 90d, 12h [default: it never expires]
        #[arg(long)]
        expires: Option<Millis>,
    },
    /// List all tokens, without their texts
    List,
    /// Revoke a token: within a second every server refuses it
    Revoke {
        /// Name of the token
        name: TokenName,
        /// With --url: pause the pushes and schedules that the token has set, or keep them running;
        /// without this option, such a token is not revoked
        #[arg(long, value_parser = ["pause", "keep"])]
        then: Option<String>,
    },
    /// Print a new token without storing it, for server.bootstrap_token_file
    Generate,
}

fn scope(text: &str) -> Result<(Scope, Vec<TopicPattern>), String> {
    let (name, patterns) = text.split_once('=').unwrap_or((text, ""));
    let Some(scope) = Scope::named(name) else {
        let names = Scope::ALL.map(Scope::name).join(", ");
        return Err(format!("must begin with a scope: {names}"));
    };
    let patterns = if patterns.is_empty() && scope == Scope::Admin { "*" } else { patterns };
    let parse = |pattern: &str| pattern.parse().map_err(|error| format!("the topics {error}"));
    Ok((scope, patterns.split(',').map(parse).collect::<Result<_, String>>()?))
}

impl Token {
    /// Returns whether the command goes to a running server. `has_store` is whether the arguments
    /// name a store.
    pub fn is_for_server(&self, has_store: bool) -> bool {
        self.connection.has_server() || (!has_store && client::has_default_server())
    }

    /// Runs the command on a running server.
    pub fn run_on_server(self) -> Result<(), Box<dyn Error>> {
        if let Action::Generate = self.action {
            return generate();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(run_on_server(&self.connection.client()?, self.action))
    }

    /// Runs the command on the configured store.
    pub fn run(self, settings: &Settings) -> Result<(), Box<dyn Error>> {
        if let Action::Generate = self.action {
            return generate();
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(run_on_store(settings, self.action, &self.connection.output()))
    }
}

fn generate() -> Result<(), Box<dyn Error>> {
    let secret = SecretToken::generate();
    let secret = secret.map_err(|_| "the operating system gave no random numbers")?;
    Ok(output::line(secret.reveal())?)
}

async fn run_on_store(
    settings: &Settings,
    action: Action,
    output: &Output,
) -> Result<(), Box<dyn Error>> {
    let opened = match action {
        Action::Create { .. } => open_store(settings).await,
        // Commands that only read must not create a store.
        _ => open_existing_store(settings).await,
    };
    let store = opened.map_err(explain_locked_store)?;
    let tokens = Tokens::new(store.clone(), None);
    let result = match action {
        Action::Create { name, scopes, expires } => {
            match tokens.create(name, merge_scopes(scopes), expiry(expires)).await {
                Ok((secret, _, notice)) => print_token(secret.reveal(), notice),
                Err(error) => Err(error.into()),
            }
        }
        Action::List => match tokens.list().await {
            Ok((tokens, unreadable)) => {
                let rows = tokens.into_iter().map(|token| {
                    to_raw_value(&json!({
                        "name": token.name, "scopes": token.scopes, "created_at": token.created_at,
                        "expires_at": token.expires_at, "last_used_at": token.last_used_at(),
                    }))
                });
                let rows = rows.chain(unreadable.iter().map(to_raw_value));
                print_rows(output, &rows.collect::<Result<Vec<_>, _>>()?)
            }
            Err(error) => Err(error.into()),
        },
        Action::Revoke { name, .. } => tokens.revoke(name).await.map_err(Into::into),
        Action::Generate => Ok(()),
    };
    store.close().await;
    result
}

#[derive(Deserialize)]
struct Created {
    token: String,
    notice: String,
}

#[derive(Deserialize)]
struct Listed {
    tokens: Vec<Box<RawValue>>,
    #[serde(default)]
    unreadable: Vec<Box<RawValue>>,
}

async fn run_on_server(server: &Client, action: Action) -> Result<(), Box<dyn Error>> {
    match action {
        Action::Create { name, scopes, expires } => {
            let token = json!({"name": name, "scopes": merge_scopes(scopes), "expires_at": expiry(expires)});
            let answer = server.send(Request::post("/tokens").json(&token)?).await?;
            let created: Created = serde_json::from_slice(&answer)?;
            print_token(&created.token, &created.notice)?;
        }
        Action::List => {
            let answer = server.send(Request::get("/tokens")).await?;
            let Listed { tokens, unreadable } = serde_json::from_slice(&answer)?;
            print_rows(&server.output, &[tokens, unreadable].concat())?;
        }
        Action::Revoke { name, then } => {
            let then = then.map(|then| format!("?then={then}")).unwrap_or_default();
            server.send(Request::new(Method::DELETE, format!("/tokens/{name}{then}"))).await?;
        }
        Action::Generate => {}
    }
    Ok(())
}

fn merge_scopes(scopes: Vec<(Scope, Vec<TopicPattern>)>) -> Scopes {
    let mut merge_scopes = Scopes::default();
    scopes.into_iter().for_each(|(scope, patterns)| merge_scopes.add(scope, patterns));
    merge_scopes
}

fn expiry(expires: Option<Millis>) -> Option<UnixMillis> {
    expires.map(|span| Clock::Own.now().ceil.after(span))
}

/// Prints the token alone on standard output, for scripts.
fn print_token(token: &str, notice: &str) -> Result<(), Box<dyn Error>> {
    eprintln!("{notice}");
    output::line(token).map_err(Into::into)
}

/// Prints a row per token.
fn print_rows(output: &Output, rows: &[Box<RawValue>]) -> Result<(), Box<dyn Error>> {
    Ok(output.rows(&["name", "scopes", "expires_at", "last_used_at"], rows)?)
}

/// Advises to send the command to the running server that has locked a file store. The error itself
/// ([`OpenError::InUse`]) advises to use another directory, but the server would not see a token
/// that was created there.
fn explain_locked_store(error: StartError) -> Box<dyn Error> {
    let StartError::Store(OpenError::InUse { dir }) = &error else { return error.into() };
    format!(
        "a running server has locked the store in {}: send the command to it, with `delay-queue token … \
         --url URL`, where URL is the address in its log (if tokens exist, add one with the scope admin in \
         --token-file or DELAY_QUEUE_TOKEN)",
        dir.display()
    )
    .into()
}
