//! `delay-queue token`: manages access tokens, in the configured store or through a running server.

mod request;

use std::{error::Error, fmt::Display};

use clap::{Args, Subcommand};
use serde_json::json;

use crate::{
    access::{Scope, Scopes, SecretToken, TokenName, Tokens},
    cli::{
        output,
        remote::{Credentials, Remote},
    },
    config::Settings,
    job::{Millis, TopicPattern, UnixMillis},
    server::{StartError, open_existing_store, open_store},
    store::{Clock, OpenError},
};

/// Create, list and revoke access tokens
#[derive(Debug, Args)]
pub struct Token {
    #[command(subcommand)]
    action: Action,

    /// Send the command to the server at this URL (http:// or https://host:port) instead of opening
    /// the configured store
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,

    #[command(flatten)]
    credentials: Credentials,
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

pub fn run(arguments: Token, settings: &Settings) -> Result<(), Box<dyn Error>> {
    if let Action::Generate = arguments.action {
        let secret = SecretToken::generate();
        let secret = secret.map_err(|_| "the operating system gave no random numbers")?;
        return Ok(output::line(secret.reveal())?);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match &arguments.url {
        Some(url) => run_on_server(&Remote::new(url, &arguments.credentials)?, arguments.action),
        None => runtime.block_on(run_on_store(settings, arguments.action)),
    }
}

async fn run_on_store(settings: &Settings, action: Action) -> Result<(), Box<dyn Error>> {
    let opened = match action {
        Action::Create { .. } => open_store(settings).await,
        // Commands that only read must not create a store.
        _ => open_existing_store(settings).await,
    };
    let store = opened.map_err(|error| explain_locked_store(error, settings))?;
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
                    json!({
                        "name": token.name, "scopes": token.scopes, "created_at": token.created_at,
                        "expires_at": token.expires_at, "last_used_at": token.last_used_at(),
                    })
                });
                print_rows(rows.chain(unreadable.iter().map(|token| json!(token))))
            }
            Err(error) => Err(error.into()),
        },
        Action::Revoke { name } => tokens.revoke(name).await.map_err(Into::into),
        Action::Generate => Ok(()),
    };
    store.close().await;
    result
}

fn run_on_server(server: &Remote, action: Action) -> Result<(), Box<dyn Error>> {
    match action {
        Action::Create { name, scopes, expires } => {
            let token = json!({"name": name, "scopes": merge_scopes(scopes), "expires_at": expiry(expires)});
            let created = server.request("POST", "/tokens", Some(&token))?;
            let text = created["token"].as_str().ok_or("the answer of the server has no token")?;
            print_token(text, created["notice"].as_str().unwrap_or_default())?;
        }
        Action::List => {
            let list = server.request("GET", "/tokens", None)?;
            let parts = ["tokens", "unreadable"].map(|part| list[part].as_array());
            print_rows(parts.into_iter().flatten().flatten())?;
        }
        Action::Revoke { name } => {
            drop(server.request("DELETE", &format!("/tokens/{name}"), None)?)
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

/// Prints one line of JSON per token.
fn print_rows(tokens: impl IntoIterator<Item = impl Display>) -> Result<(), Box<dyn Error>> {
    tokens.into_iter().try_for_each(output::line).map_err(Into::into)
}

/// Advises to send the command to the running server that has locked a file store. The error itself
/// ([`OpenError::InUse`]) advises to use another directory, but the server would not see a token
/// that was created there.
fn explain_locked_store(error: StartError, settings: &Settings) -> Box<dyn Error> {
    let StartError::Store(OpenError::InUse { dir }) = &error else { return error.into() };
    let url = settings.server.listen.url(settings.server.tls.cert_file.is_some());
    let url = url.unwrap_or_else(|| "http://HOST:PORT".to_owned());
    format!(
        "a running server has locked the store in {}: send the command to it, with `delay-queue token … \
         --url {url}` (if tokens exist, add one with the scope admin in --token-file or \
         DELAY_QUEUE_TOKEN)",
        dir.display()
    )
    .into()
}
