//! Prints the instants of cron lines, for `tests/recurrence`.
//!
//! Reads a case per line from standard input: zone, first and last Unix second, cron line, separated
//! by tabs. Prints the instants in Unix seconds, a line per case. Fails if a search backwards finds
//! others than the search forwards.

use std::{
    error::Error,
    io::{self, BufWriter, Write as _},
};

use recurrence::{Fields, Timing};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(io::stdout().lock());
    for case in io::stdin().lines() {
        let case = case?;
        let parts: Vec<_> = case.split('\t').collect();
        let [zone, first, last, line] = parts[..] else {
            return Err(format!("no case: {case}").into());
        };
        let (first, last) = (first.parse::<u64>()? * 1000, last.parse::<u64>()? * 1000);
        let fields = Fields {
            cron: Some(line.to_owned()),
            timezone: Some(zone.to_owned()),
            ..Fields::default()
        };
        let timing = Timing::parse(&fields, first)?;
        let later = |t: u64| timing.next_after(t).filter(|next| *next <= last);
        let forwards: Vec<_> = std::iter::successors(later(first - 1), |t| later(*t)).collect();
        let earlier = |t: u64| timing.last_until(t).filter(|last| *last >= first);
        let backwards = std::iter::successors(earlier(last), |t| earlier(*t - 1));
        if !backwards.eq(forwards.iter().rev().copied()) {
            return Err(format!("both directions differ: {case}").into());
        }
        let mut separator = "";
        for instant in forwards {
            if instant % 1000 != 0 {
                return Err(format!("{instant} is no whole second: {case}").into());
            }
            write!(out, "{separator}{}", instant / 1000)?;
            separator = " ";
        }
        writeln!(out)?;
    }
    Ok(out.flush()?)
}
