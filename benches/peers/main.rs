//! Programs that `benches/compare` compares a delay-queue server with: a handler on the same HTTP
//! stack that does nothing, for `delay-queue bench`; and a load generator for beanstalkd.

mod beanstalkd;
mod noop;
mod serve;

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use delay_queue::job::Millis;
use delay_queue_bench::{Failure, Finished, Ids, Load, Phase, run_peer};
use mimalloc::MiMalloc;

/// The allocator that `delay-queue` uses too.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[derive(Parser)]
enum Peer {
    /// Serve `POST /jobs` without doing anything
    Noop {
        #[arg(long, value_name = "HOST:PORT")]
        listen: String,
    },
    /// Measure the phases put and pop on beanstalkd, at --url beanstalkd://<host>:<port>
    Beanstalkd(Beanstalkd),
}

/// Options with the same names and meanings as in `delay-queue bench`.
#[derive(clap::Args)]
struct Beanstalkd {
    #[arg(long, default_value = "beanstalkd://127.0.0.1:11300")]
    url: String,
    #[arg(long, value_delimiter = ',', default_value = "put,pop")]
    phases: Vec<Phase>,
    #[arg(long, default_value_t = 100_000)]
    jobs: u64,
    #[arg(long, value_enum, default_value_t = Ids::Own)]
    ids: Ids,
    #[arg(long, default_value = "1s")]
    due_in: Millis,
    #[arg(long, default_value_t = 32)]
    connections: u16,
    #[arg(long, default_value_t = 200)]
    body: u32,
    #[arg(long, default_value_t = 1)]
    batch: u16,
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let result = match Peer::parse() {
        Peer::Noop { listen } => noop::run(&listen),
        Peer::Beanstalkd(bench) => beanstalkd(bench),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn beanstalkd(options: Beanstalkd) -> Result<(), Failure> {
    let due_in = Duration::from(options.due_in);
    if due_in.subsec_nanos() != 0 {
        return Err(format!(
            "--due-in must be whole seconds, as beanstalkd's delays are; got {due_in:?}"
        )
        .into());
    }
    let load = Load {
        phases: options.phases,
        jobs: options.jobs,
        ids: options.ids,
        due_in,
        connections: options.connections.max(1),
        body: options.body,
        batch: options.batch.max(1),
        topics: 1,
        pending: 0,
        // These options belong to phases that are not measured on beanstalkd.
        flow_time: Duration::MAX,
        rate: None,
        late_jobs: 0,
        window: Duration::ZERO,
        consumers: 0,
        count: 1,
    };
    let Finished { report, result } =
        run_peer::<beanstalkd::Beanstalkd>(load, "beanstalkd", &options.url)?;
    println!("{}", if options.json { report.json() } else { report.lines() });
    result
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn invalid_options_of_beanstalkd_are_reported() {
        for (arguments, words) in [
            (["--due-in", "500ms"], "--due-in must be whole seconds, as beanstalkd's delays are"),
            (["--url", "redis://127.0.0.1:1"], "must be beanstalkd://<host>:<port>"),
            (["--url", "beanstalkd://127.0.0.1:1"], "failed to connect to 127.0.0.1:1"),
        ] {
            let Peer::Beanstalkd(bench) =
                Peer::parse_from(["peers", "beanstalkd"].iter().chain(&arguments))
            else {
                panic!("another peer");
            };
            let error = beanstalkd(bench).expect_err("an error").to_string();
            assert!(error.contains(words), "{arguments:?}: {error}");
        }
    }
}
