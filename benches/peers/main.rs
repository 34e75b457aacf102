//! What `benches/compare` compares a delay-queue server with: a handler that does nothing, on the
//! same HTTP stack, for `delay-queue bench` to measure; and beanstalkd, under the same load.

mod beanstalkd;
mod noop;

use std::process::ExitCode;

use clap::Parser;
use delay_queue::measured::{Bench, Failure, run_peer};
use mimalloc::MiMalloc;

/// The same as that of `delay-queue`.
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
    Beanstalkd(Bench),
}

fn main() -> ExitCode {
    let done = match Peer::parse() {
        Peer::Noop { listen } => noop::run(&listen),
        Peer::Beanstalkd(bench) => beanstalkd(bench),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn beanstalkd(bench: Bench) -> Result<(), Failure> {
    let url = bench.url.clone().unwrap_or_else(|| "beanstalkd://127.0.0.1:11300".to_owned());
    if bench.due_in.subsec_nanos() != 0 {
        let due_in = bench.due_in;
        return Err(format!(
            "--due-in must be whole seconds, as beanstalkd's delays are; got {due_in:?}"
        )
        .into());
    }
    run_peer::<beanstalkd::Beanstalkd>(bench, "beanstalkd", &url)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn beanstalkd_is_measured_by_whole_seconds_and_where_it_is() {
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
