//! `delay-queue token`: access tokens, in the configured store or by a running server.

mod ask;

use std::error::Error;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::{
    access::{Scope, Scopes, SecretToken, TokenName, Tokens},
    cli::remote::{Credentials, Remote},
    config::Settings,
    job::{Millis, TopicPattern, UnixMillis},
    server::open_store,
    store::Clock,
};

/// Create, list and revoke access tokens
#[derive(Debug, Args)]
pub struct Token {
    #[command(subcommand)]
    act: Act,

    /// Ask the server at this URL (http:// or https://host:port) instead of opening the configured store
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,

    #[command(flatten)]
    credentials: Credentials,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Create a token and print it, alone, on standard output: it is shown only once
    Create {
        /// What to call it
        #[arg(long)]
        name: TokenName,
        /// A scope and its topics: put=billing.*, pop=mail,sms, read=*, manage=*, or admin. Several
        /// times for several
        #[arg(long = "scope", required = true, value_parser = scope)]
        scopes: Vec<(Scope, Vec<TopicPattern>)>,
        /// For how long it is in force: 90d, 12h
        #[arg(long, value_parser = span)]
        expires: Option<Millis>,
    },
    /// List all tokens, without their texts
    List,
    /// Revoke a token: within a second every server refuses it
    Revoke {
        /// Its name
        name: TokenName,
    },
    /// Print a new token without storing it, for server.bootstrap_token_file
    Generate,
}

fn scope(text: &str) -> Result<(Scope, Vec<TopicPattern>), String> {
    let (name, patterns) = text.split_once('=').unwrap_or((text, ""));
    let Some(scope) = Scope::ALL.into_iter().find(|scope| scope.name() == name) else {
        return Err("must begin with put, pop, read, manage or admin".to_owned());
    };
    let patterns = if patterns.is_empty() && scope == Scope::Admin { "*" } else { patterns };
    let parse = |pattern: &str| pattern.parse().map_err(|error| format!("the topics {error}"));
    Ok((scope, patterns.split(',').map(parse).collect::<Result<_, String>>()?))
}

fn span(text: &str) -> Result<Millis, String> {
    Millis::from_query(text).map_err(|error| error.to_string())
}

pub fn run(arguments: Token, settings: &Settings) -> Result<(), Box<dyn Error>> {
    if let Act::Generate = arguments.act {
        let secret = SecretToken::generate();
        let secret = secret.map_err(|_| "the operating system gave no random numbers")?;
        println!("{}", secret.reveal());
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match &arguments.url {
        Some(url) => by_server(&Remote::new(url, &arguments.credentials)?, arguments.act),
        None => runtime.block_on(by_store(settings, arguments.act)),
    }
}

async fn by_store(settings: &Settings, act: Act) -> Result<(), Box<dyn Error>> {
    let store = open_store(settings).await?;
    let tokens = Tokens::new(store.clone(), None);
    let done = match act {
        Act::Create { name, scopes, expires } => {
            let made = tokens.create(name, all(scopes), end(expires)).await;
            made.map(|(secret, _)| println!("{}", secret.reveal())).map_err(Into::into)
        }
        Act::List => match tokens.list().await {
            Ok(tokens) => {
                for token in tokens {
                    print_row(&json!({
                        "name": token.name, "scopes": token.scopes, "created_at": token.created_at,
                        "expires_at": token.expires_at, "last_used_at": token.last_used_at(),
                    }));
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        },
        Act::Revoke { name } => tokens.revoke(name).await.map_err(Into::into),
        Act::Generate => Ok(()),
    };
    store.close().await;
    done
}

fn by_server(server: &Remote, act: Act) -> Result<(), Box<dyn Error>> {
    match act {
        Act::Create { name, scopes, expires } => {
            let token = json!({"name": name, "scopes": all(scopes), "expires_at": end(expires)});
            let made = server.ask("POST", "/tokens", Some(&token))?;
            println!("{}", made["token"].as_str().ok_or("the server answered no token")?);
        }
        Act::List => {
            let list = server.ask("GET", "/tokens", None)?;
            list["tokens"].as_array().into_iter().flatten().for_each(print_row);
        }
        Act::Revoke { name } => drop(server.ask("DELETE", &format!("/tokens/{name}"), None)?),
        Act::Generate => {}
    }
    Ok(())
}

fn all(scopes: Vec<(Scope, Vec<TopicPattern>)>) -> Scopes {
    let mut all = Scopes::default();
    scopes.into_iter().for_each(|(scope, patterns)| all.add(scope, patterns));
    all
}

fn end(expires: Option<Millis>) -> Option<UnixMillis> {
    expires.map(|span| Clock::Own.now().ceil.after(span))
}

/// One line of JSON a token.
fn print_row(token: &Value) {
    println!("{token}");
}
