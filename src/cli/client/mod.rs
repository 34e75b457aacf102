//! The commands of a client of a running server. They do not load the settings of the server.

mod at;
mod away;
mod bulk;
mod connection;
mod consume;
mod context;
mod errors;
mod failure;
mod fields;
mod get;
mod http;
mod jobs;
mod push;
mod put;
mod query;
mod show;
mod table;
mod top;
mod topics;
mod work;

use std::process::ExitCode;

use clap::Subcommand;

use self::connection::Connected;
pub use self::{
    connection::{Connection, has_default_server},
    failure::{EXIT_CODES, Failure},
    http::{Client, Request},
    show::{Form, Output},
};

/// Commands of a client.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Put a job, or with --jsonl many
    Put(Connected<put::Put>),
    /// Reserve ready jobs and print them
    Pop(Connected<consume::Pop>),
    /// Finish a popped job
    Finish(Connected<consume::Finish>),
    /// Give a popped job back for another attempt
    Release(Connected<consume::Release>),
    /// Hold a popped job for another TTR from now
    Touch(Connected<consume::Touch>),
    /// Make a popped job dead
    Bury(Connected<consume::Bury>),
    /// Make a delayed or dead job ready now, or with --topic all dead jobs of a topic
    Kick(Connected<bulk::Kick>),
    /// Delete a job
    Delete(Connected<jobs::Delete>),
    /// Print a job, or wait until it is finished, dead or gone
    Get(Connected<get::Get>),
    /// Print the jobs of a topic that are in one state
    List(Connected<jobs::List>),
    /// Count the dead jobs of a topic by their error
    Errors(Connected<errors::Errors>),
    /// Print all topics with their counts
    Topics(Connected<topics::List>),
    /// Print a topic, or set its defaults for new jobs
    Topic(Connected<topics::Topic>),
    /// Stop the deliveries of a topic
    Pause(Connected<topics::Pause>),
    /// Deliver the jobs of a paused topic again
    Resume(Connected<topics::Resume>),
    /// Delete the jobs of a topic
    Purge(Connected<bulk::Purge>),
    /// Manage the push of a topic, which sends its jobs to a URL
    Push(Connected<push::Push>),
    /// Show topics, rates, lateness and what is due, live in the terminal
    Top(Connected<top::Top>),
    /// Manage contexts: servers by name, with their tokens
    Context(context::Command),
    /// Run a command for each job of a topic
    Work(Connected<work::Work>),
}

/// Runs a command and returns its exit code.
pub fn run(command: Command) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(execute(command)),
        Err(cause) => Err(Failure::Usage(format!("failed to start: {cause}"))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

async fn execute(command: Command) -> Result<(), Failure> {
    match command {
        Command::Put(put) => put.command.run(&put.connection.client()?).await,
        Command::Pop(pop) => pop.command.run(&pop.connection.client()?).await,
        Command::Finish(finish) => finish.command.run(&finish.connection.client()?).await,
        Command::Release(release) => release.command.run(&release.connection.client()?).await,
        Command::Touch(touch) => touch.command.run(&touch.connection.client()?).await,
        Command::Bury(bury) => bury.command.run(&bury.connection.client()?).await,
        Command::Kick(kick) => kick.command.run(&kick.connection.client()?).await,
        Command::Delete(delete) => delete.command.run(&delete.connection.client()?).await,
        Command::Get(get) => get.command.run(&get.connection.client()?).await,
        Command::List(list) => list.command.run(&list.connection.client()?).await,
        Command::Errors(errors) => errors.command.run(&errors.connection.client()?).await,
        Command::Topics(list) => list.command.run(&list.connection.client()?).await,
        Command::Topic(topic) => topic.command.run(&topic.connection.client()?).await,
        Command::Pause(pause) => pause.command.run(&pause.connection.client()?).await,
        Command::Resume(resume) => resume.command.run(&resume.connection.client()?).await,
        Command::Purge(purge) => purge.command.run(&purge.connection.client()?).await,
        Command::Push(push) => push.command.run(&push.connection.client()?).await,
        Command::Top(top) => top.command.run(&top.connection.client()?).await,
        Command::Context(context) => context.run(),
        Command::Work(work) => work.command.run(&work.connection.client()?).await,
    }
}
