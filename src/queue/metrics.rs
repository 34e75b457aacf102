//! Metrics of the queue and its store.
//!
//! Two kinds of families have a label for the topic. Counters belong to this server
//! (`figures/stats.rs`). Gauges come from a survey of the store and are therefore the same on each
//! server. They show the [`SHOWN_TOPICS`] topics with the most jobs, and all others as one. Both
//! kinds use the label [`OTHER`] for the others. A topic with that name always counts among the
//! others.

use std::{cmp::Reverse, collections::HashSet, fmt, sync::Arc};

use prometheus_client::{encoding::DescriptorEncoder, registry::Registry};

use crate::queue::{
    context::Context,
    figures::stats::{EventCounters, OTHER, SHOWN_TOPICS, Stats},
    figures::survey::{Survey, Surveys},
    settings_cache::TopicSettingsCache,
    timer::handle::TimerHandle,
};
use crate::{
    job::{Millis, State, Topic},
    metrics::{collect, counter, counters, gauge, gauges, one_gauge},
    store::{Store, TopicPeek},
};

pub fn register(
    registry: &mut Registry,
    context: &Context,
    surveys: &Arc<Surveys>,
    topics: &Arc<TopicSettingsCache>,
) {
    of_store(registry, &context.store);
    of_timer(registry, &context.timer);
    of_jobs(registry, &context.stats);
    let help = "Time from the due time of a job to its pop";
    registry.register("job_lateness_seconds", help, context.lateness.seconds());
    let waiters = Arc::clone(&context.waiters);
    let help = "Pops that look for jobs or wait for them.";
    gauge(registry, "waiting_pops", help, move || waiters.pops());
    let (surveys, settings) = (Arc::clone(surveys), Arc::clone(topics));
    collect(registry, "jobs", move |encoder| {
        let paused = settings.current().paused.keys().cloned().collect();
        of_paused(encoder, &paused)?;
        surveys.latest().map_or(Ok(()), |survey| of_survey(encoder, &survey, &paused))
    });
}

fn of_store(registry: &mut Registry, store: &Arc<dyn Store>) {
    let help =
        "How often a bucket was found without the jobs it had: the store was emptied or replaced.";
    let of = Arc::clone(store);
    counter(registry, "data_losses", help, move || of.condition().data_losses);
    let help = "Jumps of the store's clock by more than three seconds.";
    let of = Arc::clone(store);
    counter(registry, "clock_jumps", help, move || of.condition().clock_jumps.count);
    let help = "1 if the store has no room: puts are refused, finishing and deleting still work.";
    let of = Arc::clone(store);
    gauge(registry, "store_full", help, move || of.condition().is_full.into());
    let help =
        "Rows and pages that were found unreadable at the start: their jobs are in no topic.";
    let of = Arc::clone(store);
    gauge(registry, "store_unreadable", help, move || {
        usize::try_from(of.condition().unreadable).unwrap_or(usize::MAX)
    });
    let of = Arc::clone(store);
    collect(registry, "store_disk", move |encoder| {
        let Some(room) = of.disk_room() else { return Ok(()) };
        let help = "Room on the disk of the embedded store that this process may use.";
        one_gauge(encoder, "store_disk_free_bytes", help, room.free)?;
        let help = "Size of the disk of the embedded store.";
        one_gauge(encoder, "store_disk_size_bytes", help, room.size)
    });
}

fn of_timer(registry: &mut Registry, timer: &Arc<TimerHandle>) {
    let of = Arc::clone(timer);
    gauge(registry, "buckets", "Buckets of the store.", move || of.buckets());
    let help = "Unavailable buckets. They refuse requests; the others work.";
    let of = Arc::clone(timer);
    gauge(registry, "buckets_unavailable", help, move || of.failing().len());
    let help = "Calls by which the timer has promoted jobs or polled buckets.";
    let of = Arc::clone(timer);
    counter(registry, "timer_passes", help, move || of.passes().0);
    let help = "Failed calls of the timer, counted once per bucket.";
    let of = Arc::clone(timer);
    counter(registry, "timer_errors", help, move || of.passes().1);
}

/// Name and help text of a family, and its counter of a topic.
type OfTopic = (&'static str, &'static str, fn(&EventCounters) -> u64);

const OF_TOPIC: [OfTopic; 7] = [
    ("jobs_put", "Jobs put, including replacements of existing jobs.", |counters| counters.put),
    ("jobs_popped", "Jobs reserved by pops.", |counters| counters.popped),
    ("jobs_finished", "Jobs finished.", |counters| counters.finished),
    ("jobs_released", "Jobs released by their consumers.", |counters| counters.released),
    ("jobs_timed_out", "Reservations whose TTR ended.", |counters| counters.timed_out),
    ("jobs_died", "Jobs that became dead: attempts spent, buried or expired.", |counters| {
        counters.dead
    }),
    ("jobs_moved", "Jobs that died and moved to another topic.", |counters| counters.moved),
];

fn of_jobs(registry: &mut Registry, stats: &Arc<Stats>) {
    let of = Arc::clone(stats);
    collect(registry, "jobs_put", move |encoder| {
        let topics = of.shown();
        for (name, help, count) in OF_TOPIC {
            let series = topics.iter();
            let series =
                series.map(|(topic, counters)| ([("topic", topic.as_str())], count(counters)));
            counters(encoder, name, help, series)?;
        }
        Ok(())
    });
    let help = "Popped jobs given back without an attempt: their consumer had disconnected.";
    let of = Arc::clone(stats);
    counter(registry, "jobs_returned", help, move || of.totals().returned);
    let help = "Dead jobs deleted when their retention ended.";
    let of = Arc::clone(stats);
    counter(registry, "jobs_dropped", help, move || of.totals().gone);
}

fn of_paused(encoder: &mut DescriptorEncoder, paused: &HashSet<Topic>) -> fmt::Result {
    one_gauge(encoder, "paused_topics", "Topics that are paused.", paused.len() as u64)?;
    let mut topics: Vec<&str> = paused.iter().map(Topic::as_str).collect();
    topics.retain(|topic| *topic != OTHER);
    topics.sort_unstable();
    let series = topics.iter().take(SHOWN_TOPICS).map(|topic| ([("topic", *topic)], 1_u64));
    gauges(encoder, "topic_paused", "1 for a topic that is paused.", series)
}

fn of_survey(
    encoder: &mut DescriptorEncoder,
    survey: &Survey,
    paused: &HashSet<Topic>,
) -> fmt::Result {
    let topics = shown(survey, paused);
    let states = topics.iter().flat_map(|&(topic, peek)| {
        let labels = move |state: State| [("topic", topic), ("state", state.name())];
        State::ALL.map(|state| (labels(state), peek.counts.of(state)))
    });
    gauges(encoder, "jobs", "Jobs in the store.", states)?;
    let ages = |of: fn(&TopicPeek) -> Option<Millis>| {
        let seconds = move |peek: &TopicPeek| of(peek).map_or(0.0, seconds);
        topics.iter().map(move |(topic, peek)| ([("topic", *topic)], seconds(peek)))
    };
    let help = "Time that the earliest ready job has been due.";
    gauges(encoder, "oldest_ready_seconds", help, ages(|peek| peek.oldest_ready_age))?;
    let help = "How long ago a job that is still delayed should have become ready.";
    gauges(encoder, "oldest_overdue_seconds", help, ages(|peek| peek.overdue))?;
    one_gauge(encoder, "topics", "Topics that have jobs.", survey.topics.len() as u64)?;
    if let Some(servers) = survey.servers {
        one_gauge(encoder, "servers", "Servers that use the store.", servers.max(1))?;
    }
    let help = "Unix time when jobs were last counted.";
    one_gauge(encoder, "survey_timestamp_seconds", help, survey.as_of.get() as f64 / 1_000.0)?;
    let help = "Duration of the last count of jobs.";
    one_gauge(encoder, "survey_duration_seconds", help, survey.took.as_secs_f64())
}

fn seconds(span: Millis) -> f64 {
    span.get() as f64 / 1_000.0
}

/// Returns the topics with the most jobs, ordered by name, and the others as one. The choice is the
/// same on all servers and changes rarely, because topics are ranked by the power of two of their
/// job count, and then by name. In the sum of the others, ready jobs of paused topics have no age,
/// since they must not be popped.
fn shown<'a>(survey: &'a Survey, paused: &HashSet<Topic>) -> Vec<(&'a str, TopicPeek)> {
    let (mut topics, rest): (Vec<_>, Vec<_>) =
        survey.topics.iter().partition(|(topic, _)| topic.as_str() != OTHER);
    let mut rest = rest;
    if topics.len() > SHOWN_TOPICS {
        let key = |peek: &TopicPeek| Reverse(jobs(peek).checked_ilog2());
        topics.select_nth_unstable_by(SHOWN_TOPICS, |(a, of_a), (b, of_b)| {
            key(of_a).cmp(&key(of_b)).then_with(|| a.cmp(b))
        });
        rest.extend(topics.drain(SHOWN_TOPICS..));
        topics.sort_unstable_by_key(|(topic, _)| *topic);
    }
    let mut shown: Vec<_> =
        topics.into_iter().map(|(topic, peek)| (topic.as_str(), *peek)).collect();
    if !rest.is_empty() {
        let due = |(topic, peek): &(&Topic, &TopicPeek)| match paused.contains(*topic) {
            true => TopicPeek { oldest_ready_age: None, ..**peek },
            false => **peek,
        };
        shown.push((OTHER, rest.iter().map(due).fold(TopicPeek::default(), TopicPeek::plus)));
    }
    shown
}

fn jobs(peek: &TopicPeek) -> u64 {
    State::ALL.iter().map(|&state| peek.counts.of(state)).sum()
}

#[cfg(test)]
mod tests;
