//! The command line.

pub(crate) mod bench;
mod client;
mod completions;
mod connect;
mod demo;
mod dev;
mod doctor;
mod examples;
mod health;
mod log;
mod man;
mod moving;
mod output;
mod remote;
mod serve;
mod token;

use std::{
    error::Error,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};

use crate::config::{Flags, Settings};

#[cfg(any(test, fuzzing))]
pub use moving::export_lines;

/// A durable delay queue over plain HTTP. Without a subcommand, runs the server.
#[derive(Debug, Parser)]
#[command(name = "delay-queue", version, after_help = client::EXIT_CODES)]
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
    #[command(flatten)]
    Server(ServerCommand),
    #[command(flatten)]
    Client(Box<client::Command>),
    /// Run a throw-away server on a free port of this machine, and print its URL and a token; its
    /// jobs are deleted when it stops
    Dev,
    /// Run a throw-away server with a living example: a shop with orders, webhooks and reminders
    Demo,
    /// Print examples by task
    Examples,
    /// Write the manual pages, one for each command, into a folder
    Man {
        /// The folder, which is created
        folder: PathBuf,
    },
    /// Print the completions of the command line for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Commands with the settings of the server.
#[derive(Debug, Subcommand)]
enum ServerCommand {
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
}

impl Arguments {
    /// Returns whether an option of the server is given.
    fn has_settings(&self) -> bool {
        let Self { config, listen, store, check_config, command: _ } = self;
        config.is_some() || listen.is_some() || store.is_some() || *check_config
    }
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    let result = match arguments.command.take() {
        Some(
            Command::Client(_)
            | Command::Completions { .. }
            | Command::Examples
            | Command::Man { .. },
        ) if arguments.has_settings() => {
            return wrong_use(
                "--config, --listen, --store and --check-config are for the server; choose the \
                 server of a client with --url",
            );
        }
        Some(Command::Dev | Command::Demo)
            if arguments.store.is_some() || arguments.check_config =>
        {
            return wrong_use(
                "dev and demo have their own store: leave out --store and --check-config, or run \
                 the server itself",
            );
        }
        Some(Command::Client(command)) => return client::run(*command),
        Some(Command::Completions { shell }) => completions::run(shell),
        Some(Command::Examples) => examples::run(),
        Some(Command::Man { folder }) => man::run(&folder),
        Some(Command::Dev) => dev::run(&arguments),
        Some(Command::Demo) => demo::run(&arguments),
        Some(Command::Server(ServerCommand::Token(token)))
            if token.is_for_server(arguments.store.is_some() || arguments.config.is_some()) =>
        {
            token.run_on_server()
        }
        Some(Command::Server(command)) => run_with_settings(&arguments, command),
        None => run_with_settings(&arguments, ServerCommand::Serve),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(failure) = error.downcast_ref::<client::Failure>() {
                return failure.report();
            }
            for line in error.to_string().lines() {
                eprintln!("delay-queue: {line}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Prints why the arguments are wrong. A closed standard error does not matter.
fn wrong_use(text: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "delay-queue: {text}");
    ExitCode::from(2)
}

fn run_with_settings(arguments: &Arguments, command: ServerCommand) -> Result<(), Box<dyn Error>> {
    let settings = Settings::load(&Flags {
        file: arguments.config.clone(),
        listen: arguments.listen.clone(),
        store: arguments.store.clone(),
    })?;
    if arguments.check_config {
        let shown = settings.shown()?;
        return Ok(output::line(format_args!("# The settings are valid. In effect:\n\n{shown}"))?);
    }
    match command {
        ServerCommand::Serve => serve::run(settings, |_| Ok(())),
        ServerCommand::Health => health::run(&settings),
        ServerCommand::Doctor { repair, accept_loss } => {
            doctor::run(&settings, repair, accept_loss)
        }
        ServerCommand::Token(token) => token.run(&settings),
        ServerCommand::Bench(bench) => bench::run(bench, &settings),
        ServerCommand::Export(export) => moving::export(&export, &settings),
        ServerCommand::Import(import) => moving::import(&import, &settings),
    }
}
