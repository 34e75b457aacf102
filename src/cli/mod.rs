//! The command line.

mod bench;
mod doctor;
mod health;
mod log;
mod moving;
mod serve;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

use crate::config::{Flags, Settings, SettingsError};

/// A durable delay queue over plain HTTP. Without a subcommand it serves.
#[derive(Debug, Parser)]
#[command(name = "delay-queue", version)]
struct Arguments {
    /// Settings file (TOML); see config/default.toml for all keys
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Address and port to listen on [default: 127.0.0.1:9277]
    #[arg(long, global = true, value_name = "ADDRESS")]
    listen: Option<String>,

    /// What keeps the jobs: file:<directory> or redis://<host>:<port>/<db> [default: file:./data]
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,

    /// Check the settings and exit
    #[arg(long)]
    check_config: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server (the default)
    Serve,
    /// Ask the server at the configured address whether it lives; for container health checks
    Health,
    /// Look at the configured store and say what to mend; exits with 1 if something must be
    Doctor,
    Bench(bench::Bench),
    Export(moving::Export),
    Import(moving::Import),
}

/// Runs what the command line asks for.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = settings(&arguments).map_err(Into::into).and_then(|settings| {
        match (arguments.check_config, arguments.command) {
            (true, _) => {
                println!("the settings are fine");
                Ok(())
            }
            (false, None | Some(Command::Serve)) => serve::run(settings),
            (false, Some(Command::Health)) => health::run(&settings),
            (false, Some(Command::Doctor)) => doctor::run(&settings),
            (false, Some(Command::Bench(bench))) => bench::run(bench, &settings),
            (false, Some(Command::Export(export))) => moving::export(&export, &settings),
            (false, Some(Command::Import(import))) => moving::import(&import, &settings),
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("delay-queue: {error}");
            ExitCode::FAILURE
        }
    }
}

fn settings(arguments: &Arguments) -> Result<Settings, SettingsError> {
    Settings::load(&Flags {
        file: arguments.config.clone(),
        listen: arguments.listen.clone(),
        store: arguments.store.clone(),
    })
}
