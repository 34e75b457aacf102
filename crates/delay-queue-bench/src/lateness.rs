//! The phase lateness: measures how late waiting consumers get due jobs, without other load.

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

/// Minimum time between the first put and the first due time.
const MIN_LEAD: Duration = Duration::from_secs(2);
/// Assumed rate of the puts. With many jobs, [`MIN_LEAD`] is extended by the time that the puts
/// take at this rate.
const PUTS_PER_SECOND: u64 = 10_000;

pub async fn measure(run: &Run, to: &Destination) -> Result<(), Failure> {
    let (jobs, window) = (run.load.late_jobs, run.load.window);
    let lead = MIN_LEAD + Duration::from_secs(jobs / PUTS_PER_SECOND);
    let first = whole_millis(now() + lead);
    let due = move |n: u64| first + whole_millis(window).saturating_mul(n) / jobs;
    let topic = slice::from_ref(&run.late_topic);
    fill(run, to, (topic, jobs), due).await?;
    if now().as_millis() > first.into() {
        return Err(format!("putting {jobs} jobs took longer than {} s", lead.as_secs()).into());
    }

    // The rate is measured from the first due time on.
    let first = Duration::from_millis(first);
    let arrivals = Arrivals::new(run.load.count, (first, None));
    arrivals.put(jobs);
    arrivals.all_put();
    let mut tasks = JoinSet::new();
    for _ in 0..run.load.consumers {
        let consumer = Server::connect(to).await?;
        tasks.spawn_local(Rc::clone(&arrivals).consume(consumer, run.late_topic.clone()));
    }
    tasks.spawn_local(Rc::clone(&arrivals).fail_if_lost(first + window));
    arrivals.measurements.borrow_mut().start();
    let result = watch(run, tasks, ("lateness", Some(jobs)), &arrivals.measurements).await;
    run.report.borrow_mut().figures.push(arrivals.figures(Phase::Lateness, None));
    result
}

fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
