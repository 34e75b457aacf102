//! Test of the end of the retention.

use super::*;

#[tokio::test]
async fn finished_jobs_are_forgotten_last_and_fill_no_topic() {
    let bench = Bench::new();
    bench.put(kept("a")).await.expect("put");
    let reservation = Some(bench.pop().await[0]);
    bench.finish(vec![finish_of("a", reservation, Some("\"long\""))]).await.remove(0).expect("ok");
    let usage = bench.store.topic_usage(topic()).await.expect("usage");
    assert_eq!((usage.jobs, usage.bytes), (0, 0));
    assert_eq!(bench.store.usage().await.expect("usage").jobs, 1);
    let after = Schedule::In(Millis::new(KEPT.get() + 1));
    bench.put(NewJob { schedule: after, ..kept("b") }).await.expect("put");
    bench.clock.advance(Millis::new(KEPT.get() + 1));
    assert_eq!(bench.promote(1).await, Some(UnixMillis::new(START.get() + KEPT.get())));
    assert_eq!(bench.state("b").await, Some(State::Ready));
    assert_eq!(bench.state("a").await, Some(State::Finished));
    assert_eq!(bench.promote(1).await, None);
    assert_eq!(bench.state("a").await, None);
}
