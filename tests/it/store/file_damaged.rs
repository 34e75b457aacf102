//! Damaged bytes in the files of the file store. The store reports each loss, continues with the
//! other jobs, and delivers no job with a wrong field.

use crate::store::prelude::*;

const PAGE: usize = 4096;

/// Closes the store, changes its file, and opens the store again.
async fn damage(bench: Bench, change: impl FnOnce(&mut Vec<u8>)) -> Bench {
    bench.store.close().await;
    let mut bytes = fs::read(bench.database()).expect("the file");
    change(&mut bytes);
    fs::write(bench.database(), bytes).expect("written");
    bench.reopen().await
}

/// Returns all offsets of `sought`. There may be several, since pages keep old copies of moved
/// rows.
fn offsets_of(bytes: &[u8], sought: &[u8]) -> Vec<usize> {
    let found = bytes.windows(sought.len()).enumerate().filter(|(_, part)| *part == sought);
    let found: Vec<usize> = found.map(|(at, _)| at).collect();
    assert!(!found.is_empty(), "the file does not contain {sought:?}");
    found
}

fn flip(bytes: &mut [u8], sought: &[u8], offset: usize, bit: u8) {
    for at in offsets_of(bytes, sought) {
        bytes[at + offset] ^= bit;
    }
}

fn long_job(name: &str, topic: &str, marker: &str) -> NewJob {
    let body = format!("\"{}{marker}{}\"", "x".repeat(4000), "y".repeat(5000));
    NewJob { body: body.into(), ..job(name, topic) }
}

/// Makes the overflow page that contains the marker point to a page outside its chain.
fn cut_chain(bytes: &mut [u8], marker: &str) {
    for at in offsets_of(bytes, marker.as_bytes()) {
        let page = at / PAGE * PAGE;
        bytes[page..page + 4].copy_from_slice(&0x00ff_ffff_u32.to_be_bytes());
    }
}

/// Makes the row of this job point to a nonexistent overflow page.
fn lose_chain(bytes: &mut [u8], name: &str) {
    for at in offsets_of(bytes, name.as_bytes()) {
        let Some(body) = bytes[at..].iter().take(PAGE).position(|byte| *byte == b'x') else {
            continue;
        };
        let length = bytes[at + body..].iter().take_while(|byte| **byte == b'x').count();
        let end = at + body + length;
        bytes[end..end + 4].copy_from_slice(&0x00ff_ffff_u32.to_be_bytes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_overflow_chain_quarantines_only_its_job() {
    let bench = Bench::file().await;
    bench.put(long_job("broken", "t", "MARK")).await.expect("put");
    for n in 0..100 {
        bench.put(job(&format!("sound:{n}"), "t")).await.expect("put");
    }
    let bench = damage(bench, |bytes| cut_chain(bytes, "MARK")).await;
    assert_eq!(bench.damaged("t", State::Ready).await, [id("broken")]);

    // Puts to other topics share batches with the pops that read the damaged job.
    let mut puts = JoinSet::new();
    for n in 0..50 {
        let bench = bench.clone();
        puts.spawn(async move { bench.put(job(&format!("other:{n}"), "u")).await });
    }
    let popped = bench.pop("t", 100).await;
    assert_eq!(popped.len(), 99, "not exactly one of a hundred jobs is quarantined");
    assert!(puts.join_all().await.iter().all(Result::is_ok));
    assert_eq!(bench.pop("t", 100).await.len(), 1);
    let (dead, reasons) = bench.damaged_for("t", State::Dead).await;
    assert_eq!(dead, [id("broken")]);
    assert!(reasons[0].contains("malformed"), "{reasons:?}");

    // The delete is durable although the damaged pages cannot be freed.
    assert_eq!(bench.delete(&id("broken")).await, Ok(State::Dead));
    assert_eq!(bench.damaged("t", State::Dead).await, []);
    for job in &popped {
        bench.finish(&job.id, Some(job.reservation)).await.expect("finish");
    }
    let bench = bench.reopen().await;
    assert_eq!(bench.damaged("t", State::Dead).await, []);
    assert_eq!(bench.pop("u", 100).await.len(), 50);
}

#[tokio::test]
async fn a_damaged_job_is_refused_while_its_batch_succeeds() {
    let bench = Bench::file().await;
    bench.put(long_job("broken", "t", "MARK")).await.expect("put");
    bench.put(delayed("sound", "t", MINUTE)).await.expect("put");
    let bench = damage(bench, |bytes| cut_chain(bytes, "MARK")).await;
    let change = changing(|policy| policy.max_attempts = Some(7));
    let both = vec![(target(&id("broken")), change.clone()), (target(&id("sound")), change)];
    let replies = bench.call::<verb::Reschedule>(bench.bucket(&id("sound")), both).await;
    assert_eq!(replies[0], Err(Refusal::Damaged));
    assert_eq!(replies[1].as_ref().expect("changed").policy.max_attempts, 7);
    let shown = bench.store.get(bench.bucket(&id("broken")), target(&id("broken"))).await;
    assert!(matches!(shown, Err(StoreError::Damaged { .. })), "{shown:?}");
    // A caller without access to the topic gets no job, damaged or not.
    let patterns = vec!["other.*".parse().expect("a pattern")];
    let foreign = Target { id: id("broken"), topics: Topics::new(patterns) };
    let hidden = bench.store.get(bench.bucket(&foreign.id), foreign.clone()).await;
    assert_eq!(hidden.expect("nothing"), None);
    let change = changing(|policy| policy.max_attempts = Some(9));
    let refused = vec![(foreign.clone(), change)];
    let refused = bench.call::<verb::Reschedule>(bench.bucket(&foreign.id), refused).await;
    assert_eq!(refused, [Err(Refusal::NotFound)]);
}

#[tokio::test]
async fn a_flipped_field_is_never_delivered() {
    let bench = Bench::file().await;
    let due = |n: u64| delayed(&format!("flip:{n}"), "t", SECOND);
    for n in 0..3 {
        bench.put(due(n)).await.expect("put");
    }
    let held = bench.popped(job("held", "held")).await;
    // The flipped bits give another id, another topic, and another due time.
    let bench = damage(bench, |bytes| {
        flip(bytes, b"flip:0", 5, 8);
        flip(bytes, b"flip:1t", 6, 1);
        flip(bytes, b"flip:2t", 7 + 6 + 3, 1);
        // Damages the end of the reservation, which follows the name of the state.
        let row = offsets_of(bytes, b"reserved\x01");
        row.iter().for_each(|at| bytes[at + 8 + 2] ^= 1);
    })
    .await;
    bench.promote_after(MINUTE).await;
    for topic in ["t", "u", "held"] {
        assert_eq!(bench.pop(topic, 9).await.len(), 0, "{topic}");
    }
    let (dead, reasons) = bench.damaged_for("t", State::Dead).await;
    assert_eq!(dead.len(), 2, "{dead:?}");
    assert!(reasons.iter().all(|reason| reason.contains("pool")), "{reasons:?}");
    let (_, reasons) = bench.damaged_for("held", State::Dead).await;
    assert!(reasons[0].contains("attempts"), "{reasons:?}");
    // The record of the job is sound, so the job counts as never popped.
    bench.kick(&held.id).await.expect("kick");
    assert_eq!(bench.pop_one("held").await.body, held.body);
}

#[tokio::test]
async fn a_damaged_row_that_names_another_job_is_counted() {
    let bench = Bench::file().await;
    for name in ["flip:1", "flip:3"] {
        bench.put(job(name, "t")).await.expect("put");
    }
    let bench = damage(bench, |bytes| flip(bytes, b"flip:1t", 5, 2)).await;
    assert_eq!(bench.store.condition().unreadable, 1, "the missing job is not counted");
    let sound = bench.pop_one("t").await;
    assert_eq!((sound.id, sound.body), (id("flip:3"), job("flip:3", "t").body));
    assert_eq!(bench.damaged("t", State::Dead).await, []);
}

#[tokio::test]
async fn an_unreadable_page_does_not_stop_reads_of_others() {
    let bench = Bench::file().await;
    for n in 0..500 {
        bench.put(delayed(&format!("job:{n:03}"), "t", SECOND)).await.expect("put");
    }
    let bench = damage(bench, |bytes| {
        for at in offsets_of(bytes, b"job:250") {
            bytes[at / PAGE * PAGE] = 0xff;
        }
    })
    .await;
    bench.promote_after(MINUTE).await;
    let mut popped: Vec<JobId> = Vec::new();
    for _ in 0..5 {
        popped.extend(bench.pop_ids("t", 100).await);
    }
    assert!(popped.len() > 400 && popped.len() < 500, "{}", popped.len());
    assert!(!popped.contains(&id("job:250")));
    bench.put(job("new", "t")).await.expect("puts still succeed");
    assert_eq!(bench.pop_one("t").await.id, id("new"));
}

#[tokio::test]
async fn a_batch_deletes_its_jobs_if_one_cannot_be_deleted() {
    let bench = Bench::file().await;
    let bucket = bench.bucket(&id("broken"));
    let names = (0..200).map(|n| id(&format!("sound:{n}")));
    let mut ids: Vec<JobId> = names.filter(|id| bench.bucket(id) == bucket).collect();
    ids.insert(ids.len() / 2, id("broken"));
    for id in &ids {
        let body = if id.as_str() == "broken" { long('x') } else { text(10) };
        bench.put(NewJob { body, ..job(id.as_str(), "t") }).await.expect("put");
    }
    let bench = damage(bench, |bytes| lose_chain(bytes, "broken")).await;
    let deleted = bench.call::<verb::Delete>(bucket, ids.iter().map(deletion).collect()).await;
    assert!(deleted.iter().all(|reply| *reply == Ok(State::Ready)), "{deleted:?}");
    // After the restart, jobs that are still on disk would return.
    let bench = bench.reopen().await;
    assert_eq!(bench.topics().await, []);
    // Only the rows of the broken job remain. The store never uses them again.
    bench.store.close().await;
    let connection = rusqlite::Connection::open(bench.database()).expect("the file");
    let left = connection.query_row("SELECT group_concat(id) FROM pool", (), |row| row.get(0));
    assert_eq!(left, Ok("broken".to_owned()));
}

#[tokio::test]
async fn jobs_whose_attempts_are_lost_are_not_popped_again() {
    let bench = Bench::file().await;
    for n in 0..200 {
        bench.put(job(&format!("job:{n:03}"), "t")).await.expect("put");
    }
    bench.put(delayed("later", "t", MINUTE)).await.expect("put");
    let popped = bench.pop("t", 100).await.len() + bench.pop("t", 50).await.len();
    assert_eq!(popped, 150);
    let bench = damage(bench, |bytes| {
        // Damages all leaf pages of attempts, so that the store does not know which jobs were
        // popped.
        for page in (0..bytes.len()).step_by(PAGE) {
            if bytes[page] == 0x0d && bytes[page..page + PAGE].windows(8).any(|w| w == b"reserved")
            {
                bytes[page] = 0;
            }
        }
    })
    .await;
    assert_eq!(bench.pop("t", 100).await.len(), 0, "a job was delivered a second time");
    let expected = Counts { dead: 200, delayed: 1, ..Counts::default() };
    assert_eq!(bench.counts("t").await, expected, "a job that was not due counts as popped");
}

#[tokio::test]
async fn a_damaged_job_that_would_move_stays_dead_in_its_topic() {
    let bench = Bench::file().await;
    let new = with(long_job("a", "t", "mark"), |rules| rules.dead_to = Some(topic("dead")));
    bench.put(new).await.expect("put");
    let bench = damage(bench, |bytes| flip(bytes, b"mark", 0, 1)).await;
    assert!(bench.pop("t", 1).await.is_empty());
    assert_eq!(bench.ready("dead").await, 0);
    assert_eq!(bench.damaged("t", State::Dead).await, [id("a")]);
}
