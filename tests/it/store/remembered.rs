//! Ids that stay taken after their jobs have ended: puts with the id of a finished job, and
//! remembered deletes.

use crate::store::batches::exists;
use crate::store::prelude::*;

pub async fn a_put_retried_after_the_finish_creates_no_job(bench: Bench) {
    let put = || NewJob { on_conflict: OnConflict::Reject, ..kept(job("a", "t"), HOUR) };
    bench.finished(put(), None).await;
    for _ in 0..3 {
        assert_eq!(bench.put(put()).await, exists(State::Finished, "t"));
        bench.promote_after(MINUTE).await;
        assert!(bench.pop("t", 1).await.is_empty());
    }
    let bench = bench.reopen().await;
    assert_eq!(bench.put(put()).await, exists(State::Finished, "t"));
    assert!(bench.pop("t", 1).await.is_empty());
    bench.promote_after(HOUR).await;
    assert_eq!(bench.put(put()).await.map(|placed| placed.how), Ok(PutOutcome::Created));
}

pub async fn a_remembered_id_is_free_after_its_time(bench: Bench) {
    bench.put(job("a", "t")).await.expect("put");
    assert_eq!(bench.delete_remembered(&id("a"), SECOND).await, Ok(State::Ready));
    let bench = bench.reopen().await;
    bench.promote_after(Millis::new(999)).await;
    assert_eq!(bench.put(job("a", "t")).await, exists(State::Finished, "t"));
    bench.promote_after(Millis::new(1)).await;
    assert_eq!(bench.get(&id("a")).await, None);
    bench.put(job("a", "t")).await.expect("the id is free");
    // Without `remember`, the id is free at once.
    assert_eq!(bench.delete_remembered(&id("a"), Millis::ZERO).await, Ok(State::Ready));
    assert_eq!(bench.get(&id("a")).await, None);
    let missing = bench.delete_remembered(&id("a"), HOUR).await;
    assert_eq!(missing, Err(Refusal::NotFound), "an unknown id is not remembered");
    bench.put(job("a", "t")).await.expect("the id is free");
}
