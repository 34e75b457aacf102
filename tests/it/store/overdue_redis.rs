//! Ends of TTRs and expiries on Redis, which a timer reads before it acts on them: shares of
//! several servers, and ids that should not be in the sets.

use delay_queue::store::Promoted;

use crate::store::{prelude::*, redis_only::ConnectedBench};

/// Returns the tag of the only bucket, which has this job.
fn tag(redis: &mut ConnectedBench) -> String {
    let pools = redis.ask(&["KEYS", "*:pool"]).texts();
    let [pool] = &pools[..] else { panic!("{pools:?}") };
    pool.trim_end_matches(":pool").to_owned()
}

/// Lets a job's TTR end and promotes its bucket after this span, while another server with this id
/// has a lease.
async fn promote_beside(redis: &mut ConnectedBench, other: &str, after: Millis) -> Promoted {
    let bench = redis.bench.clone();
    let shared = bench.store.shared().expect("a shared store");
    let leases = format!("{{{}:topics}}:servers", bench.layout.prefix);
    let is_pair = || {
        let servers = shared.servers();
        servers.is_some_and(|all| all.ids.len() == 2 && all.ids.iter().any(|id| id == other))
    };
    loop {
        bench.popped(job("a", "t")).await;
        bench.advance(Millis::new(MINUTE.get() + after.get()));
        eventually!(
            {
                redis.ask(&["ZADD", &leases, "+inf", other]);
                is_pair()
            },
            "the server does not see the other one"
        );
        let promoted = promote_in(&*bench.store, Bucket::FIRST, 9).await.expect("promote");
        // A machine that stalls may let a lease end.
        let was_pair = is_pair();
        bench.delete(&id("a")).await.expect("deleted");
        bench.promote_after(SECOND).await;
        if was_pair {
            return promoted;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_servers_one_acts_on_an_ended_ttr_first() {
    let mut redis = ConnectedBench::new().await;
    let shared = redis.bench.store.clone();
    let _hints = shared.shared().expect("a shared store").join().await.expect("joined");
    // The bucket is the share of the server whose id is the first one.
    let promoted = promote_beside(&mut redis, "~", Millis::ZERO).await;
    assert_eq!(promoted.total().timed_out, 1);
    let promoted = promote_beside(&mut redis, "!", Millis::ZERO).await;
    let wait = promoted.next.map(|next| next.wait);
    assert_eq!((promoted.total().timed_out, wait), (0, Some(Duration::from_millis(300))));
    let promoted = promote_beside(&mut redis, "!", Millis::new(300)).await;
    assert_eq!(promoted.total().timed_out, 1);
}

#[tokio::test]
async fn ids_that_should_not_be_in_a_set_leave_it_once_it_is_due() {
    let mut redis = ConnectedBench::new().await;
    let bench = redis.bench.clone();
    bench.popped(with(job("done", "t"), |policy| policy.finished_retention = HOUR)).await;
    bench.finish(&id("done"), None).await.expect("finished");
    bench.popped(job("held", "t")).await;
    bench.put(job("plain", "t")).await.expect("put");
    bench.put(delayed("later", "t", HOUR)).await.expect("put");
    let tag = tag(&mut redis);
    for name in ["held", "plain", "later", "done", "gone"] {
        redis.ask(&["ZADD", &format!("{tag}:expiring:t"), "1", name]);
    }
    for name in ["done", "gone", "empty"] {
        redis.ask(&["ZADD", &format!("{tag}:reserved:t"), "1", name]);
    }
    redis.ask(&["HSET", &format!("{tag}:attempts"), "empty", ""]);
    for set in ["expiring:t", "reserved:t"] {
        redis.ask(&["ZADD", &format!("{tag}:ends"), "1", set]);
    }
    let before = bench.topics().await;
    let promoted = bench.promote().await;
    assert_eq!(promoted.total(), PromoteCounts::default());
    assert_eq!(redis.ask(&["ZRANGE", &format!("{tag}:expiring:t"), "0", "-1"]).texts(), [""; 0]);
    assert_eq!(redis.ask(&["ZRANGE", &format!("{tag}:reserved:t"), "0", "-1"]).texts(), ["held"]);
    redis.ask(&["HDEL", &format!("{tag}:attempts"), "empty"]);
    assert_eq!(redis.problems("*"), [""; 0]);
    let reserved = |topics: &[(Bucket, Topic, Counts)]| topics[0].2.reserved;
    assert_eq!((reserved(&before), reserved(&bench.topics().await)), (4, 1));
    bench.promote_after(MINUTE).await;
    assert_eq!(bench.pop_ids("t", 9).await, [id("plain"), id("held")]);
}

/// After half a script, an old pool record may stand beside a newer attempt record, which counts.
#[tokio::test]
async fn an_expiry_that_a_newer_record_moved_ends_no_job() {
    let mut redis = ConnectedBench::new().await;
    let bench = redis.bench.clone();
    let tag = tag_of_expiring(&mut redis).await;
    let pool = format!("{tag}:pool");
    let old = redis.ask(&["HGET", &pool, "a"]).text().to_owned();
    let later = changing(|policy| policy.expires_after = Some(Some(HOUR)));
    bench.reschedule(&id("a"), later).await.expect("rescheduled");
    redis.ask(&["HSET", &pool, "a", &old]);
    bench.advance(MINUTE);
    assert_eq!(
        bench.pop_ids("t", 1).await,
        [] as [JobId; 0],
        "its record says that it has expired"
    );
    assert_eq!(bench.pop_ids("t", 1).await, [id("a")]);
}

/// Puts job `a`, which expires in a minute and has an attempt record; returns the bucket's tag.
async fn tag_of_expiring(redis: &mut ConnectedBench) -> String {
    let bench = &redis.bench;
    let popped =
        bench.popped(with(job("a", "t"), |policy| policy.expires_after = Some(MINUTE))).await;
    bench
        .release(&popped.id, Some(popped.reservation), Some(Millis::ZERO))
        .await
        .expect("released");
    tag(redis)
}

#[tokio::test]
async fn a_key_of_another_type_stops_the_ends_of_its_topic_alone() {
    for broken in ["expiring", "ready"] {
        let mut redis = ConnectedBench::new().await;
        let bench = redis.bench.clone();
        for (name, topic) in [("a", "t"), ("b", "u")] {
            let expires = |policy: &mut Policy| policy.expires_after = Some(HOUR);
            bench.popped(with(job(name, topic), expires)).await;
        }
        let key = format!("{}:{broken}:t", tag(&mut redis));
        redis.ask(&["DEL", &key]);
        redis.ask(&["SET", &key, "x"]);
        bench.promote_after(MINUTE).await;
        assert_eq!(bench.pop_one("u").await.id, id("b"), "{broken}");
        redis.ask(&["DEL", &key]);
        bench.promote_after(MINUTE).await;
        assert_eq!(bench.pop_one("t").await.id, id("a"), "{broken}");
    }
}

/// Half a script may leave a finished job in the set of reserved ones.
#[tokio::test]
async fn a_finished_job_in_a_wrong_set_is_kept_for_its_retention() {
    let mut redis = ConnectedBench::new().await;
    let bench = redis.bench.clone();
    bench.popped(with(job("a", "t"), |policy| policy.finished_retention = HOUR)).await;
    bench.finish(&id("a"), None).await.expect("finished");
    let tag = tag(&mut redis);
    redis.ask(&["DEL", &format!("{tag}:finished:t")]);
    redis.ask(&["ZADD", &format!("{tag}:reserved:t"), "1", "a"]);
    redis.ask(&["ZADD", &format!("{tag}:ends"), "1", "reserved:t"]);
    bench.promote().await;
    assert_eq!(redis.problems("*"), [""; 0]);
    assert_eq!(bench.state(&id("a")).await, Some(State::Finished));
    bench.promote_after(HOUR).await;
    assert_eq!(bench.state(&id("a")).await, None);
}

/// The policy has a field that this version does not know, as after a downgrade.
#[tokio::test]
async fn an_expired_job_that_the_server_cannot_read_is_dead() {
    let mut redis = ConnectedBench::new().await;
    let bench = redis.bench.clone();
    let expires = |policy: &mut Policy| policy.expires_after = Some(SECOND);
    bench.put(with(job("a", "t"), expires)).await.expect("put");
    let pool = format!("{}:pool", tag(&mut redis));
    let script = "local record = redis.call('HGET', KEYS[1], 'a') \
                  local created, crc, length, policy, rest = \
                  string.match(record, '^4 (%x+) %x%x%x%x%x%x%x%x(%x+) (%d+) (%S*) (.*)$') \
                  local topic = string.match(rest, '^[^\\n]+') \
                  local rules = crc .. ' ' .. length .. ' z=1;' .. policy .. ' ' .. topic \
                  local sum = string.sub(redis.sha1hex('a ' .. rules), 1, 8) \
                  return redis.call('HSET', KEYS[1], 'a', '4 ' .. created .. ' ' .. sum .. rules .. \
                  string.sub(rest, #topic + 1))";
    assert_eq!(redis.ask(&["EVAL", script, "1", &pool]), Reply::Number(0));
    bench.advance(MINUTE);
    assert!(bench.pop("t", 1).await.is_empty());
    assert_eq!(bench.topics().await[0].2.dead, 1);
    let attempt = redis.ask(&["HGET", &pool.replace(":pool", ":attempts"), "a"]);
    assert!(attempt.text().ends_with("its record is damaged"), "{attempt:?}");
    assert_eq!(bench.promote().await.total(), PromoteCounts::default());
}
