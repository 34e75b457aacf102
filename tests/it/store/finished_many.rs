//! Many finished jobs: batches, lists, counts, and the end of their retention.

use crate::store::prelude::*;

pub async fn a_batch_finishes_jobs_with_and_without_retention(bench: Bench) {
    let (bucket, ids) = bench.ids(6);
    let mut finishes = Vec::new();
    for (number, name) in ids.iter().enumerate() {
        let of = ["t", "u"][number / 3];
        let retention = if number % 2 == 0 { HOUR } else { Millis::ZERO };
        let popped = bench.popped(kept(job(name.as_str(), of), retention)).await;
        finishes.push(finishing(held(&popped)));
    }
    finishes[2].result = Some("2".into());
    finishes[3].result = Some("3".into());
    finishes[5].held.reservation = Some(Reservation::NONE);
    finishes.extend_from_within(..2);
    let replies = bench.call::<verb::Finish>(bucket, finishes).await;
    let (t, u) = (Ok(topic("t")), Ok(topic("u")));
    let not_kept = Err(Refusal::ResultNotKept);
    let gone = Err(Refusal::NotFound);
    assert_eq!(replies, [t.clone(), t.clone(), t.clone(), not_kept, u, Err(LOST), t, gone]);
    let (finished, reserved) = (Some(State::Finished), Some(State::Reserved));
    assert_eq!(bench.states(&ids).await, [finished, None, finished, reserved, finished, reserved]);
    let result = bench.get(&ids[2]).await.and_then(|job| job.ending?.result);
    assert_eq!(result, Some("2".into()));
}

pub async fn finished_jobs_are_listed_by_the_end_of_their_retention(bench: Bench) {
    let (bucket, ids) = bench.ids(4);
    // The jobs are finished in this order. The numbers are their retentions in minutes.
    for (name, minutes) in ids.iter().zip([40, 10, 30, 20]) {
        let retention = Millis::new(MINUTE.get() * minutes);
        bench.finished(kept(job(name.as_str(), "t"), retention), Some("1".into())).await;
        bench.advance(SECOND);
    }
    let list = async |after, limit| {
        let range = JobRange { after, limit, ..JobRange::default() };
        bench.store.list(bucket, topic("t"), State::Finished, range).await.expect("a page")
    };
    let first = list(None, 3).await;
    let second = list(first.next.clone(), 3).await;
    assert_eq!(second.next, None);
    let listed: Vec<Job> = first.jobs.into_iter().chain(second.jobs).collect();
    let names: Vec<&JobId> = listed.iter().map(|job| &job.id).collect();
    assert_eq!(names, [&ids[1], &ids[3], &ids[2], &ids[0]]);
    for job in listed {
        assert_eq!(bench.get(&job.id.clone()).await, Some(job));
    }
}

/// Promotes after the TTRs of the finished jobs have ended. Until then, each promote reads the
/// reserved sets of their topics.
async fn forget_ended_reservations(bench: &Bench) {
    bench.promote_after(Millis::new(MINUTE.get() + SECOND.get())).await;
}

pub async fn finished_jobs_of_many_topics_do_not_delay_other_jobs(bench: Bench) {
    let (bucket, ids) = bench.ids(202);
    let [reserved, later, finished @ ..] = &ids[..] else { unreachable!("two ids") };
    for (number, name) in finished.iter().enumerate() {
        // Together, the topics would use up the budget of a call.
        let topic = format!("t-{}", number % 10);
        let retention = Millis::new(90 * SECOND.get());
        bench.finished(kept(job(name.as_str(), &topic), retention), None).await;
    }
    // These retentions end before the TTR and the delay of the next two jobs.
    forget_ended_reservations(&bench).await;
    bench.popped(job(reserved.as_str(), "u")).await;
    bench.put(delayed(later.as_str(), "v", MINUTE)).await.expect("put");
    bench.advance(HOUR);
    promote_in(&*bench.store, bucket, 100).await.expect("promoted");
    assert_eq!(bench.states([reserved, later]).await, [Some(State::Ready); 2]);
}

pub async fn forgetting_takes_no_budget_from_delayed_jobs(bench: Bench) {
    let (bucket, ids) = bench.ids(9);
    let (finished, later) = ids.split_first().expect("an id");
    bench.finished(kept(job(finished.as_str(), "a"), HOUR), None).await;
    forget_ended_reservations(&bench).await;
    for name in later {
        bench.put(delayed(name.as_str(), "b", MINUTE)).await.expect("put");
    }
    bench.advance(HOUR);
    promote_in(&*bench.store, bucket, 8).await.expect("promoted");
    assert_eq!(bench.counts("b").await, Counts { ready: 8, ..Counts::default() });
}

pub async fn restored_finished_jobs_keep_their_endings(bench: Bench) {
    use Outcome::{Deleted, Finished, ResultDropped};
    let ways =
        [Finished, ResultDropped, Deleted].map(|outcome| [(outcome, 0, None), (outcome, 3, None)]);
    let results = [(Finished, 1, Some(text(2))), (Finished, 2, Some(text(5_000)))];
    let mut restored = Vec::new();
    for (outcome, attempt, result) in ways.concat().into_iter().chain(results) {
        let mut job = stored(&bench, &restored.len().to_string(), "t", State::Finished);
        (job.attempt, job.reservation) = (attempt, job.reservation.filter(|_| attempt > 0));
        job.ending = Some(Ending { at: bench.now(), outcome, result });
        bench.restore(job.clone()).await.expect("a free id");
        restored.push(job);
    }
    let bench = bench.reopen().await;
    bench.advance(SECOND);
    for job in &restored {
        assert_eq!(bench.job(job.id.as_str()).await, *job);
    }
    let expected = Counts { finished: 8, ..Counts::default() };
    assert_eq!(bench.counts("t").await, expected);
    bench.promote_after(HOUR).await;
    assert_eq!(bench.records().await, 0);
}
