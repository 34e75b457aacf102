//! The command line.

pub(crate) mod bench;
mod client;
mod connect;
mod doctor;
mod health;
mod log;
mod moving;
mod output;
mod remote;
mod serve;
mod token;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

use crate::config::{Flags, Settings, SettingsErrors};

#[cfg(any(test, fuzzing))]
pub use moving::export_lines;

/// A durable delay queue over plain HTTP. Without a subcommand, runs the server.
#[derive(Debug, Parser)]
#[command(name = "delay-queue", version)]
struct Arguments {
    /// Settings file (TOML); see config/default.toml for all keys
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Host and port to listen on, or unix:<path> [default: 127.0.0.1:9277]
    #[arg(long, global = true, value_name = "HOST:PORT")]
    listen: Option<String>,

    /// Where jobs are stored: file:<directory> or redis://<host>:<port>/<db> [default: file:./data]
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,

    /// Check the settings, print those in effect, and exit
    #[arg(long, global = true)]
    check_config: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server (the default)
    Serve,
    /// Check that the server at the configured address runs; for health checks of containers
    Health,
    /// Inspect the configured store; exits with 1 if something needs repair
    Doctor {
        /// Repair the store as far as possible. For a file store, this moves the damaged files to
        /// another folder and copies all readable data into a new store
        #[arg(long)]
        repair: bool,
        /// Accept the loss of jobs after Redis was emptied or replaced, and continue with its
        /// present data. Without this option, the servers refuse all calls until the lost jobs are
        /// restored
        #[arg(long)]
        accept_loss: bool,
    },
    Bench(bench::Bench),
    Export(moving::Export),
    Import(moving::Import),
    Token(token::Token),
    #[command(flatten)]
    Client(Box<client::Command>),
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    let command = match arguments.command.take() {
        Some(Command::Client(command)) => return client::run(*command),
        command => command,
    };
    let result = load_settings(&arguments).map_err(Into::into).and_then(|settings| {
        match (arguments.check_config, command) {
            (true, _) => {
                let shown = settings.shown()?;
                Ok(output::line(format_args!("# The settings are valid. In effect:\n\n{shown}"))?)
            }
            (false, None | Some(Command::Serve | Command::Client(_))) => serve::run(settings),
            (false, Some(Command::Health)) => health::run(&settings),
            (false, Some(Command::Doctor { repair, accept_loss })) => {
                doctor::run(&settings, repair, accept_loss)
            }
            (false, Some(Command::Token(token))) => token::run(token, &settings),
            (false, Some(Command::Bench(bench))) => bench::run(bench, &settings),
            (false, Some(Command::Export(export))) => moving::export(&export, &settings),
            (false, Some(Command::Import(import))) => moving::import(&import, &settings),
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            for line in error.to_string().lines() {
                eprintln!("delay-queue: {line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn load_settings(arguments: &Arguments) -> Result<Settings, SettingsErrors> {
    Settings::load(&Flags {
        file: arguments.config.clone(),
        listen: arguments.listen.clone(),
        store: arguments.store.clone(),
    })
}
