use std::time::Duration;

use super::*;

/// Returns each number doubled, with the size of its batch, once the gate opens.
fn doubling(gate: &Arc<tokio::sync::Semaphore>) -> Coalescer<u32, (u32, usize)> {
    let gate = Arc::clone(gate);
    Coalescer::new(&TaskTracker::new(), move |jobs: Vec<u32>| {
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.expect("an open gate").forget();
            let answer = |n: &u32| match jobs.contains(&0) {
                true => Err(StoreError::unavailable("zero")),
                false => Ok((n * 2, jobs.len())),
            };
            jobs.iter().map(answer).collect()
        }
    })
}

fn replies<O>(outcomes: StoreResults<O>) -> Vec<O> {
    outcomes.into_iter().map(|outcome| outcome.expect("replied")).collect()
}

async fn waiting(coalescer: &Coalescer<u32, (u32, usize)>, groups: usize) {
    while coalescer.inner.lock().waiting.len() < groups {
        tokio::task::yield_now().await;
    }
}

async fn under_way(coalescer: &Coalescer<u32, (u32, usize)>) {
    loop {
        let (busy, idle) = {
            let state = coalescer.inner.lock();
            (state.calling > 0, state.waiting.is_empty())
        };
        if busy && idle {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_arrives_during_a_call_goes_into_the_next_together() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let coalescer = doubling(&gate);
    let submit = |jobs: Vec<u32>| {
        let coalescer = coalescer.clone();
        tokio::spawn(async move { coalescer.submit(jobs).await })
    };
    let first = submit(vec![1]);
    under_way(&coalescer).await;
    let second = submit(vec![2, 3]);
    let gone = submit(vec![4]);
    waiting(&coalescer, 2).await;
    gone.abort();
    gate.add_permits(2);
    assert_eq!(replies(first.await.expect("joined")), [(2, 1)]);
    assert_eq!(replies(second.await.expect("joined")), [(4, 3), (6, 3)]);
}

/// Submits `groups` while all calls are held, and returns the batch size that each job saw.
async fn gathered(
    coalescer: &Coalescer<u32, (u32, usize)>,
    gate: &tokio::sync::Semaphore,
    groups: &[Vec<u32>],
) -> Vec<usize> {
    let mut held = Vec::new();
    for _ in 0..MAX_IN_FLIGHT {
        let coalescer = coalescer.clone();
        held.push(tokio::spawn(async move { coalescer.submit(vec![1; MAX_BATCH]).await }));
        tokio::task::yield_now().await;
    }
    while coalescer.inner.lock().calling < MAX_IN_FLIGHT {
        tokio::task::yield_now().await;
    }
    under_way(coalescer).await;
    let submits = groups.iter().map(|jobs| {
        let (coalescer, jobs) = (coalescer.clone(), jobs.clone());
        tokio::spawn(async move { coalescer.submit(jobs).await })
    });
    let submits: Vec<_> = submits.collect();
    waiting(coalescer, groups.len()).await;
    gate.add_permits(MAX_IN_FLIGHT + groups.len());
    let mut sizes = Vec::new();
    for submit in submits {
        sizes.push(replies(submit.await.expect("joined"))[0].1);
    }
    sizes
}

#[tokio::test]
async fn no_call_gets_more_than_a_batch_and_no_group_is_torn() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let coalescer = doubling(&gate);
    let sizes = gathered(&coalescer, &gate, &vec![vec![2; 300]; 10]).await;
    // Each call takes three groups of 300; the last one takes the rest.
    assert_eq!(sizes, [900, 900, 900, 900, 900, 900, 900, 900, 900, 300]);
}

#[tokio::test]
async fn heavy_jobs_go_in_smaller_batches() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let weight = |n: &u32| usize::try_from(*n).expect("a small number");
    let coalescer = Coalescer { inner: Arc::new(Inner { weight, ..unshared(doubling(&gate)) }) };
    let groups = [vec![400], vec![300, 300], vec![1], vec![2_000], vec![999], vec![1]];
    let sizes = gathered(&coalescer, &gate, &groups).await;
    assert_eq!(sizes, [3, 3, 1, 1, 2, 2]);
}

fn unshared(coalescer: Coalescer<u32, (u32, usize)>) -> Inner<u32, (u32, usize)> {
    Arc::into_inner(coalescer.inner).expect("no other has it")
}

#[tokio::test]
async fn a_large_group_is_divided_and_results_stay_in_order() {
    let call = |jobs: Vec<u32>| async move {
        let answer = |n: &u32| match jobs.contains(&4) {
            true => Err(StoreError::unavailable("four")),
            false => Ok((n * 2, jobs.len())),
        };
        jobs.iter().map(answer).collect()
    };
    let coalescer = Coalescer::weighing(|_| 1, 2, &TaskTracker::new(), call);
    let outcomes = coalescer.submit(vec![1, 2, 3, 4, 5]).await;
    let replies: Vec<Option<(u32, usize)>> = outcomes.into_iter().map(Result::ok).collect();
    assert_eq!(replies, [Some((2, 2)), Some((4, 2)), None, None, Some((10, 1))]);
    assert!(coalescer.submit(Vec::new()).await.is_empty());
}

#[tokio::test]
async fn an_error_reaches_the_whole_batch_and_the_next_call_goes_well() {
    let gate = Arc::new(tokio::sync::Semaphore::new(9));
    let coalescer = doubling(&gate);
    let failed = coalescer.submit(vec![1, 0]).await;
    assert!(failed.len() == 2 && failed.iter().all(Result::is_err), "zero fails");
    assert_eq!(replies(coalescer.submit(vec![5]).await), [(10, 1)]);
}

#[tokio::test]
async fn a_panic_in_a_call_does_not_block_those_after_it() {
    let coalescer = Coalescer::new(&TaskTracker::new(), |jobs: Vec<u32>| async move {
        assert!(!jobs.contains(&0), "a call that panics");
        jobs.into_iter().map(Ok).collect()
    });
    assert!(coalescer.submit(vec![0]).await[0].is_err(), "it panicked");
    let next = tokio::time::timeout(Duration::from_secs(5), coalescer.submit(vec![1])).await;
    assert_eq!(replies(next.expect("in time")), [1]);
}
