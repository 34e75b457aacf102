//! Command-line options of a run. `./tests/soak --help` shows them.

use std::ffi::OsString;

use clap::{Parser, ValueEnum};

use crate::soak::faults;

/// Puts, pops and ends jobs on real servers while it injects one fault after another, and judges
/// the answers to clients and the contents of the store.
#[derive(Debug, Parser)]
#[command(name = "tests/soak", no_binary_name = true)]
pub struct Options {
    /// The store under test.
    #[arg(long)]
    pub store: Kind,
    /// Minutes to run. The run lasts longer if a fault has had no effect yet
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=1440))]
    pub minutes: u64,
    /// Seed of the order of the faults and of their random choices. Default: a random seed
    #[arg(long, default_value_t = rand::random::<u32>().into())]
    pub seed: u64,
    /// With "memory", Redis syncs once a second and acknowledges before the sync. Jobs of the last
    /// seconds that a fault loses are then counted and allowed. Default: stores acknowledge after
    /// the sync
    #[arg(long)]
    pub ack: Option<Ack>,
    /// Only this fault, by its name; can be given several times. Default: all faults of the store.
    #[arg(long = "fault")]
    pub faults: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// The embedded store, with one server.
    File,
    /// One Redis that syncs each write, with two servers.
    Redis,
    /// A master and its replica with three Sentinels, `ack = "replica"`, and two servers.
    Sentinel,
    /// Three masters and their replicas, `ack = "replica"`, and two servers.
    Cluster,
}

/// The moment of acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ack {
    Memory,
}

impl Options {
    /// Parses the words.
    ///
    /// # Errors
    /// If a word is unknown or invalid. The error lists the valid ones.
    pub fn read(words: &[impl Clone + Into<OsString>]) -> Result<Self, clap::Error> {
        let options = Self::try_parse_from(words.iter().cloned())?;
        if options.ack.is_some() && options.store != Kind::Redis {
            let message = "--ack memory is for --store redis\n".to_owned();
            return Err(clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, message));
        }
        let all = faults::of(options.store);
        if let Some(name) = options.faults.iter().find(|name| !all.contains(&name.as_str())) {
            let message = format!(
                "the store {:?} does not have the fault {name:?}: it has {}\n",
                options.store,
                all.join(", ")
            );
            return Err(clap::Error::raw(clap::error::ErrorKind::InvalidValue, message));
        }
        Ok(options)
    }

    /// Reads the environment variable `SOAK`, which `./tests/soak` sets, or otherwise `words`.
    /// Invalid options end the process with exit code 2, as in other commands.
    pub fn given_or(words: &str) -> Self {
        let asked = std::env::var("SOAK").unwrap_or_else(|_| words.to_owned());
        let words: Vec<_> = asked.split('\n').filter(|word| !word.is_empty()).collect();
        Self::read(&words).unwrap_or_else(|error| error.exit())
    }
}

#[test]
fn unknown_options_are_refused_with_the_known_ones() {
    // No store has the first fault, and another store has the second.
    for (words, told) in [
        ("--store disk", "[possible values: file, redis, sentinel, cluster]"),
        ("--store file --fault earthquake", "\"earthquake\": it has server-killed, "),
        ("--store file --fault master-killed", "\"master-killed\": it has server-killed, "),
        ("--store file --seed many", "invalid digit"),
        ("--store file --minutes 0", "1..=1440"),
        ("--store file --ack memory", "--store redis"),
        ("--minutes 1", "--store"),
    ] {
        let words: Vec<_> = words.split(' ').collect();
        let refused = Options::read(&words).expect_err("refused").to_string();
        assert!(refused.contains(told), "{refused}");
    }
}
