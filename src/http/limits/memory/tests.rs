use std::task::Poll;

use super::*;

#[test]
fn bytes_count_until_the_last_part_of_them_is_dropped() {
    let memory = Memory::new(Budget::new(1 << 20));
    let mut share = memory.share();
    share.grow(100_000).expect("there is room");
    let whole = share.hold(vec![1; 100_000]);
    let part = whole.slice(10..20);
    drop(whole);
    assert_eq!(memory.used(), 100_000);
    drop(part);
    assert_eq!(memory.used(), 0);
}

#[tokio::test]
async fn page_reads_are_limited_and_so_is_their_queue() {
    let memory = Memory::new(Budget::new(1 << 20));
    let mut pages: Vec<_> =
        (0..MAX_PAGES + MAX_WAITING_PAGES + 1).map(|_| Box::pin(memory.page())).collect();
    let mut polled = Vec::new();
    for page in &mut pages {
        polled.push(futures::poll!(page));
    }
    let reads = polled.iter().filter(|page| matches!(page, Poll::Ready(Ok(_)))).count();
    let refused = polled.iter().filter(|page| matches!(page, Poll::Ready(Err(_)))).count();
    assert_eq!((reads, refused), (MAX_PAGES, 1));
    polled.clear();
    assert!(futures::poll!(&mut pages[MAX_PAGES]).is_ready(), "the next in the queue");
    let mut share = memory.share();
    share.grow(950_000).expect_err("an eighth is reserved for small shares");
    share.grow(memory.limit() / 8 * 7).expect("there is room");
    memory.page().await.expect_err("no room for a page");
}

#[test]
fn the_last_part_of_memory_is_for_small_requests() {
    let memory = Memory::new(Budget::new(800_000));
    let mut large = memory.share();
    large.grow(700_001).expect_err("an eighth is reserved for small shares");
    assert_eq!(memory.used(), 0);
    large.grow(700_000).expect("there is room");
    memory.has_room().expect_err("it is all in use");
    large.grow(1).expect_err("the share is too large");
    let mut small = memory.share();
    small.grow(SMALL).expect("there is room for it");
    small.grow(1).expect_err("the share is too large now");
    drop((large, small));
    assert_eq!(memory.used(), 0);
}

#[tokio::test]
async fn more_counts_at_once_than_allowed_are_refused() {
    let memory = Memory::new(Budget::new(1 << 20));
    let mut running = Vec::new();
    for _ in 0..MAX_COUNTS {
        running.push(memory.count().await.expect("allowed"));
    }
    assert!(memory.count().await.is_err());
    running.pop();
    assert!(memory.count().await.is_ok());
}
