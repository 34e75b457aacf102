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

#[cfg(test)]
mod tests {
    use super::Options;

    fn refused(words: &str) -> String {
        let words: Vec<_> = words.split(' ').collect();
        Options::read(&words).expect_err("refused").to_string()
    }

    #[test]
    fn unknown_options_are_refused_with_the_known_ones() {
        assert!(
            refused("--store disk").contains("[possible values: file, redis, sentinel, cluster]")
        );
        // No store has the first fault, and another store has the second.
        for name in ["earthquake", "master-killed"] {
            let known = refused(&format!("--store file --fault {name}"));
            assert!(known.contains(name) && known.contains("power-lost"), "{known}");
        }
        assert!(refused("--store file --seed many").contains("invalid digit"));
        assert!(refused("--store file --minutes 0").contains("1..=1440"));
        assert!(refused("--store file --ack memory").contains("--store redis"));
        assert!(refused("--minutes 1").contains("--store"));
    }

    #[test]
    fn a_seed_is_kept() {
        let options = Options::read(&["--store", "redis", "--seed", "7"]).expect("good words");
        assert_eq!((options.seed, options.minutes), (7, 30));
    }
}
