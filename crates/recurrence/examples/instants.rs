//! Prints the instants of cron lines, for `tests/recurrence`.
//!
//! Reads a case per line from standard input: zone, first and last Unix second, and cron line, with
//! tabs between them. Prints the instants in Unix seconds, a line per case. Fails if a search
//! backwards finds others than the search forwards, or a search from between two instants any
//! other.

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
        if !forwards.windows(2).all(|pair| is_empty_between(&timing, pair[0], pair[1])) {
            return Err(format!("searches from other times differ: {case}").into());
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

/// Returns whether searches from a time between two instants find these two. The clock can show the
/// time of the earlier one again half an hour or an hour after it, and the time of the later one
/// before it.
fn is_empty_between(timing: &Timing, earlier: u64, later: u64) -> bool {
    let shifts = [1_800_000, 3_600_000];
    let times = shifts.into_iter().flat_map(|shift| [earlier + shift - 1, later - shift]);
    times
        .filter(|t| (earlier..later).contains(t))
        .all(|t| timing.next_after(t) == Some(later) && timing.last_until(t) == Some(earlier))
}
