//! The phase lateness: how late waiting consumers get due jobs, without other load.

use std::{rc::Rc, slice, time::Duration};

use tokio::task::JoinSet;

use super::{
    Failure, Run,
    client::Destination,
    clock::now,
    consumers::Arrivals,
    load::{fill, watch},
    options::Phase,
    peer::{Peer, Server},
};

/// Time for puts before the first due time, and jobs put per second in addition to it.
const LEAD: Duration = Duration::from_secs(2);
const PUTS_PER_SECOND: u64 = 10_000;

pub async fn measure(run: &Run, to: &Destination) -> Result<(), Failure> {
    let (jobs, window) = (run.load.late_jobs, run.load.window);
    let lead = LEAD + Duration::from_secs(jobs / PUTS_PER_SECOND);
    let first = whole_millis(now() + lead);
    let due = move |n: u64| first + whole_millis(window).saturating_mul(n) / jobs;
    let topic = slice::from_ref(&run.late_topic);
    fill(run, to, (topic, jobs), due).await?;
    if now().as_millis() > first.into() {
        return Err(format!("putting {jobs} jobs took longer than {} s", lead.as_secs()).into());
    }

    // The rate counts from the first due time on.
    let first = Duration::from_millis(first);
    let arrivals = Arrivals::new(run.load.count, (first, None));
    arrivals.put(jobs);
    arrivals.all_put();
    let mut parts = JoinSet::new();
    for _ in 0..run.load.consumers {
        let consumer = Server::connect(to).await?;
        parts.spawn_local(Rc::clone(&arrivals).consume(consumer, run.late_topic.clone()));
    }
    parts.spawn_local(Rc::clone(&arrivals).give_up(first + window));
    arrivals.measurements.borrow_mut().start();
    let done = watch(run, parts, ("lateness", Some(jobs)), &arrivals.measurements).await;
    run.report.borrow_mut().figures.push(arrivals.figures(Phase::Lateness, None));
    done
}

fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
