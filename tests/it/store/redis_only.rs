//! Properties that only the store on Redis has: flushed scripts, damage by other programs, two
//! servers.

use delay_queue::store::{Hint, SharedStore, Subscription};

use crate::store::prelude::*;

pub fn command(bench: &Bench, line: &str) -> String {
    bench.redis_server().command(line).expect("an answer")
}

/// Returns the name of the key of this kind that contains the job.
pub fn key(bench: &Bench, name: &str, kind: &str) -> String {
    let keys = command(bench, "KEYS *");
    let keys = keys.lines().filter(|line| line.ends_with(&format!(":{kind}")));
    let mut holding =
        keys.filter(|key| command(bench, &format!("HEXISTS {key} {name}")) == ":1\r\n");
    holding.next().expect("a key that contains the job").to_owned()
}

/// A store in one bucket on its own Redis, and a connection to it.
pub struct ConnectedBench {
    pub bench: Bench,
    pub connection: Connection,
}

impl ConnectedBench {
    pub async fn new() -> Self {
        let bench = Bench::one_bucket_redis().await;
        let connection = Connection::to(bench.redis_server().port()).expect("a Redis that runs");
        Self { bench, connection }
    }

    pub fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> Reply {
        self.connection.ask(words).expect("an answer")
    }

    /// Gives rights to all clients, or takes them away.
    pub fn set_rights(&mut self, rules: &[impl AsRef<str>]) {
        let rules = rules.iter().map(|rule| rule.as_ref());
        let words: Vec<&str> = ["ACL", "SETUSER", "default"].into_iter().chain(rules).collect();
        assert_eq!(self.ask(&words), Reply::Text("OK".to_owned()));
    }

    /// Returns every key with a hash of its contents.
    pub fn contents(&mut self) -> Vec<String> {
        let script = "local all = {} for _, key in ipairs(redis.call('KEYS', '*')) do \
                      all[#all + 1] = key .. ' ' .. redis.sha1hex(redis.call('DUMP', key)) end \
                      table.sort(all) return all";
        self.ask(&["EVAL", script, "0"]).texts()
    }

    /// Returns the problems in the buckets whose tags match this pattern.
    pub fn problems(&mut self, tags: &str) -> Vec<String> {
        let keys = self.ask(&["KEYS", &format!("{tags}:incarnation")]).texts();
        assert!(!keys.is_empty(), "no bucket {tags}");
        let mut problems = Vec::new();
        for key in keys {
            let tag = key.trim_end_matches(":incarnation");
            let answer = self.ask(&["EVAL", INVARIANTS, "0", tag]);
            assert!(matches!(answer, Reply::Many(_)), "{answer:?}");
            problems.extend(answer.texts());
        }
        problems
    }
}

#[tokio::test]
async fn an_id_without_a_record_does_not_block_later_jobs() {
    let bench = Bench::one_bucket_redis().await;
    for name in ["a", "b"] {
        bench.put(job(name, "t")).await.expect("put");
    }
    let pool = key(&bench, "a", "pool");
    command(&bench, &format!("HDEL {pool} a"));
    assert_eq!(bench.pop_ids("t", 2).await, [id("b")]);
    bench.put(job("a", "t")).await.expect("the id is free");
}

#[tokio::test]
async fn unreadable_defaults_do_not_hide_other_settings() {
    let bench = Bench::redis().await;
    command(&bench, "HSET {dq:topics}:defaults bad nonsense");
    bench.store.set_paused(topic("t"), true).await.expect("pause");
    let mut settings = TopicSettings::default();
    settings.apply(bench.store.settings(0).await.expect("settings").expect("a change"));
    assert_eq!((settings.paused.len(), settings.defaults.len()), (1, 0));
}

#[tokio::test]
async fn a_full_redis_resumes_topics_but_pauses_none() {
    let bench = Bench::redis().await;
    bench.store.set_paused(topic("t"), true).await.expect("pause");
    command(&bench, "CONFIG SET maxmemory 1");
    bench.store.set_paused(topic("t"), false).await.expect("resume");
    let error = bench.store.set_paused(topic("t"), true).await.expect_err("full");
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
}

#[tokio::test]
async fn a_broken_attempt_record_loses_the_count_but_not_the_job() {
    let bench = Bench::redis().await;
    bench.popped(with(job("a", "t"), |policy| policy.max_attempts = 2)).await;
    let attempts = key(&bench, "a", "attempts");
    command(&bench, &format!("HSET {attempts} a nonsense"));
    bench.promote_after(MINUTE).await;
    assert_eq!(bench.pop_one("t").await.attempt, 1);
}

#[tokio::test]
async fn a_record_that_is_in_no_set_can_be_replaced_and_deleted() {
    let bench = Bench::one_bucket_redis().await;
    for name in ["a", "b"] {
        bench.put(job(name, "t")).await.expect("put");
        let ready = key(&bench, name, "pool").replace(":pool", ":ready:t");
        assert_eq!(command(&bench, &format!("ZREM {ready} {name}")), ":1\r\n");
    }
    let keep = NewJob { on_conflict: OnConflict::Keep, ..job("a", "t") };
    assert_eq!(bench.put(keep).await.map(|placed| placed.state), Ok(State::Ready));
    let _ = bench.delete(&id("b")).await;
    bench.put(job("b", "t")).await.expect("the id is free");
    assert_eq!(bench.pop("t", 9).await.len(), 2);
}

#[tokio::test]
async fn a_put_into_a_topic_with_a_broken_key_changes_nothing() {
    let mut redis = ConnectedBench::new().await;
    let bench = redis.bench.clone();
    bench.put(job("a", "t")).await.expect("put");
    let tag = key(&bench, "a", "pool").replace(":pool", "");
    // In no set, the job has no topic, and may be replaced by one of any topic.
    redis.ask(&["ZREM", &format!("{tag}:ready:t"), "a"]);
    redis.ask(&["SET", &format!("{tag}:ready:u"), "no set"]);
    let before = redis.contents();
    let replace = NewJob { on_conflict: OnConflict::Replace, ..job("a", "u") };
    let answer = bench.store.call_in::<verb::Put>(bench.bucket(&id("a")), vec![replace]).await;
    let error = answer.expect_err("the key is broken");
    assert_eq!(error.applied(), Applied::No, "{error}");
    assert_eq!(redis.contents(), before);
}

#[tokio::test]
async fn a_replaced_finished_job_leaves_no_result() {
    let bench = Bench::one_bucket_redis().await;
    let held = bench.popped(kept(job("a", "t"), HOUR)).await;
    let finished = bench.finish_with(&id("a"), Some(held.reservation), Some(text(9_000))).await;
    finished.expect("finish");
    let pool = key(&bench, "a", "pool");
    command(&bench, &format!("HSET {pool} a 6damaged"));
    let replace = NewJob { on_conflict: OnConflict::Replace, ..job("a", "t") };
    let placed = bench.put(replace).await.expect("replaced");
    assert_eq!((placed.how, placed.state), (PutOutcome::Created, State::Ready));
    let bodies = pool.replace(":pool", ":bodies");
    assert_eq!(command(&bench, &format!("EXISTS {bodies}")), ":0\r\n");
    assert_eq!(bench.pop_ids("t", 9).await, [id("a")]);
}

#[tokio::test]
async fn an_id_that_only_a_set_has_can_be_restored() {
    let bench = Bench::one_bucket_redis().await;
    bench.put(job("other", "t")).await.expect("put");
    let tag = key(&bench, "other", "pool").replace(":pool", "");
    assert_eq!(command(&bench, &format!("ZADD {tag}:delayed:t 1800000000000 a")), ":1\r\n");
    let restored = stored(&bench, "a", "t", State::Dead);
    bench.restore(restored.clone()).await.expect("no job has the id");
    assert_eq!(bench.job("a").await, restored);
    assert_eq!(command(&bench, &format!("EXISTS {tag}:delayed:t")), ":0\r\n");
}

#[tokio::test]
async fn nothing_is_left_in_redis_when_all_jobs_are_gone() {
    let bench = Bench::redis().await;
    for number in 0..20 {
        let new = NewJob { body: text(2 + number * 500), ..job(&format!("job:{number}"), "t") };
        bench.put(new).await.expect("put");
    }
    for popped in bench.pop("t", 20).await {
        bench.finish(&popped.id, Some(popped.reservation)).await.expect("finish");
    }
    // The sets of buckets contain the deadlines of ended reservations until these times have
    // passed.
    bench.promote_after(MINUTE).await;
    // The remaining keys are those of an empty store.
    let keys = command(&bench, "KEYS *");
    let jobs = |key: &&str| {
        key.contains("dq") && !key.ends_with(":incarnation") && !key.contains("dq:layout")
    };
    assert_eq!(keys.lines().filter(jobs).collect::<Vec<_>>(), Vec::<&str>::new());
    bench.store.check().await.expect("fit");
}

#[tokio::test]
async fn ready_ids_without_their_pool_are_kept() {
    let bench = Bench::one_bucket_redis().await;
    bench.put(job("a", "t")).await.expect("put");
    let pool = key(&bench, "a", "pool");
    // Simulates the interrupted move of a slot, which has left the pool on another node.
    assert_eq!(command(&bench, &format!("RENAME {pool} elsewhere")), "+OK\r\n");
    let pop = (nonce(), vec![want("t", 1)]);
    let popped = bench.store.call_in::<verb::Pop>(bench.bucket(&id("a")), pop).await;
    let error = popped.expect_err("refused");
    assert_eq!(error.applied(), Applied::No, "{error}");
    assert_eq!(command(&bench, &format!("RENAME elsewhere {pool}")), "+OK\r\n");
    assert_eq!(bench.pop_one("t").await.id, id("a"));
}

#[tokio::test]
async fn a_missing_long_body_does_not_block_other_topics() {
    let bench = Bench::one_bucket_redis().await;
    bench.put(NewJob { body: text(5_000), ..job("long", "t") }).await.expect("put");
    bench.put(job("a", "u")).await.expect("put");
    bench.put(job("b", "v")).await.expect("put");
    let bodies = key(&bench, "long", "pool").replace(":pool", ":bodies");
    assert_eq!(command(&bench, &format!("DEL {bodies}")), ":1\r\n");
    let bucket = bench.bucket(&id("long"));
    let pop = async || {
        let wants = ["t", "u", "v"].map(|topic| want(topic, 9)).to_vec();
        bench.store.call_in::<verb::Pop>(bucket, (nonce(), wants)).await
    };
    let popped = pop().await.expect("pops from other topics succeed");
    let found: Vec<_> = popped.iter().map(|popped| (popped.jobs.len(), popped.left)).collect();
    assert_eq!(found, [(0, 1), (1, 0), (1, 0)]);
    let error = pop().await.expect_err("only the job without a body remains");
    assert_eq!(error.applied(), Applied::No, "{error}");
}

#[tokio::test]
async fn an_unwritable_bucket_does_not_stop_the_others() {
    let bench = Bench::redis().await;
    let ids: Vec<JobId> = (0..40).map(|n| id(&format!("order-{n}"))).collect();
    let broken = bench.bucket(&ids[0]);
    bench.put(job("order-0", "other")).await.expect("put");
    let pool = key(&bench, "order-0", "pool");
    bench.delete(&ids[0]).await.expect("deleted");
    let ready = pool.replace(":pool", ":ready:t");
    command(&bench, &format!("SET {ready} text"));
    let parts = bench.parts(&ids, |id| job(id.as_str(), "t"));
    let outcomes = bench.store.put(parts.clone()).await;
    for ((bucket, _), outcome) in parts.into_iter().zip(outcomes) {
        assert_eq!(outcome.is_err(), bucket == broken, "{outcome:?}");
    }
    for id in ids {
        let lives = bench.get(&id).await.is_some();
        assert_eq!(lives, bench.bucket(&id) != broken, "{id}");
    }
    // Promotes and peeks also return the answers of the other buckets.
    command(&bench, &format!("DEL {ready}"));
    let bucket = pool.replace(":pool", ":bucket");
    command(&bench, &format!("SET {bucket} text"));
    let promoted = promote_together(&*bench.store, bench.store.buckets().all(), 100).await;
    let failed: Vec<usize> = (0..16).filter(|&index| promoted[index].is_err()).collect();
    assert_eq!(failed, [broken.index()]);
}

#[tokio::test]
async fn writes_of_a_failed_bucket_reach_no_other_bucket() {
    let bench = Bench::redis().await;
    let ids: Vec<JobId> = (0..200).map(|n| id(&format!("order-{n}"))).collect();
    for id in &ids {
        bench.put(delayed(id.as_str(), "t", HOUR)).await.expect("put");
    }
    let parts = bench.parts(&ids, target);
    assert_eq!(parts[0].0, Bucket::FIRST);
    // The script fails on the first bucket only after it has prepared writes.
    let broken = &parts[0].1[0].id;
    let deadlines = key(&bench, broken.as_str(), "pool").replace(":pool", ":bucket");
    command(&bench, &format!("SET {deadlines} text"));
    let outcomes = bench.store.kick(parts.clone()).await;
    for ((bucket, jobs), outcome) in parts.into_iter().zip(outcomes) {
        assert_eq!(outcome.is_err(), bucket == Bucket::FIRST, "{outcome:?}");
        let topic = bench.store.topic(bucket, topic("t")).await.expect("a look");
        let kicked = if bucket == Bucket::FIRST { 0 } else { jobs.len() as u64 };
        assert_eq!(topic.counts.ready, kicked, "{bucket:?}");
    }
}

#[tokio::test]
async fn a_lost_layout_is_not_taken_for_a_new_store() {
    let bench = Bench::redis().await;
    command(&bench, "DEL dq:layout");
    let open = |prefix: &str| {
        let options = redis_options(&bench.redis_server().url(), prefix);
        RedisStore::open(options, Options::new(None, bench.clock.clone()))
    };
    let error = open("dq").await.err().expect("refused").to_string();
    assert!(error.contains("dq:layout") && error.contains("lost"), "{error}");
    command(&bench, "SET dq:layout \"schema=6 hash=xxh3-64 buckets=16\"");
    open("dq").await.expect("the layout has returned");
    open("d").await.expect("a store with another prefix opens");
}

#[tokio::test]
async fn stores_in_two_databases_exchange_no_hints() {
    let redis = Redis::start();
    let open = async |db: u8| {
        let url = format!("{}{db}", redis.url());
        let options = Options::new(Some(Buckets::SIXTEEN), Clock::Own);
        RedisStore::open(redis_options(&url, "dq"), options).await.expect("opened")
    };
    let all = [open(0).await, open(0).await, open(1).await, open(1).await];
    let joined = all.each_ref().map(async |store| store.join().await.expect("the first call"));
    let mut hints: Vec<Subscription> = futures::future::join_all(joined).await;
    let [here, _, there, _] = &all;
    let bucket = Bucket::FIRST;
    let leases = there.leases().await.expect("leases");
    assert_eq!(leases.len(), 2, "leases of the other database are counted");
    for db in 0..2 {
        let ask = format!("PUBSUB SHARDNUMSUB {{dq:0fb}}:hints-5:{db}");
        let both = async || redis.command(&ask).expect("an answer").ends_with(":2\r\n");
        until("the servers have not subscribed to hints", both).await;
    }
    // A server that knows no other server publishes no polls.
    until("the server does not see the other one", async || !here.is_alone()).await;
    // The order of the hints matters: if hints crossed databases, the hint published first would
    // arrive first.
    here.publish(Hint::Polled(bucket));
    assert_eq!(hints[1].recv().await, Some(Hint::Polled(bucket)));
    there.publish(Hint::Settings);
    let hint = hints[3].recv().await;
    assert_eq!(hint, Some(Hint::Settings), "a hint of the other database has arrived");
    assert!(hints[1].try_recv().is_err(), "a hint of the second database has arrived in the first");
}

#[tokio::test]
async fn all_settings_are_read_if_the_log_of_changes_has_a_gap() {
    let bench = Bench::redis().await;
    let pause = async |name| bench.store.set_paused(topic(name), true).await.expect("pause");
    let read = async |known| bench.store.settings(known).await.expect("settings");
    let all = |news: Option<SettingsChanges>| match news {
        Some(SettingsChanges::All(settings)) => settings,
        other => panic!("not all settings were read: {other:?}"),
    };
    pause("a").await;
    let first = all(read(0).await);
    pause("b").await;
    let mut second = first.clone();
    assert!(matches!(read(first.version).await, Some(SettingsChanges::Changed { .. })));
    second.apply(read(first.version).await.expect("a change"));
    pause("c").await;
    // Simulates a failover that has lost the second change. The server knows this change, and the
    // third one came later.
    let log = "{dq:topics}:changes";
    assert_eq!(command(&bench, &format!("ZREM {log} \"{} b\"", second.version)), ":1\r\n");
    assert_eq!(command(&bench, "HDEL {dq:topics}:paused b"), ":1\r\n");
    let third = all(read(second.version).await);
    assert_eq!(third.paused, ["a", "c"].map(|name| (topic(name), Pause::OPEN)).into());
    // Simulates a failover that has lost the last change.
    assert_eq!(command(&bench, &format!("SET {{dq:topics}}:version {}", first.version)), "+OK\r\n");
    assert_eq!(all(read(third.version).await).version, first.version);
    // Simulates a change that is missing in the log.
    assert_eq!(command(&bench, "SET {dq:topics}:version 9000000000000000"), "+OK\r\n");
    all(read(first.version).await);
    // Simulates an emptied Redis.
    command(&bench, "FLUSHALL");
    assert_eq!(all(read(third.version).await), TopicSettings::default());
}

#[tokio::test]
async fn a_reschedule_reports_a_damaged_job_and_does_not_change_it() {
    let bench = Bench::one_bucket_redis().await;
    bench.put(NewJob { body: text(5_000), ..delayed("long", "t", MINUTE) }).await.expect("put");
    for name in ["broken", "sound"] {
        bench.put(delayed(name, "t", MINUTE)).await.expect("put");
    }
    let pool = key(&bench, "long", "pool");
    let bodies = pool.replace(":pool", ":bodies");
    assert_eq!(command(&bench, &format!("HDEL {bodies} long")), ":1\r\n");
    assert_eq!(command(&bench, &format!("HSET {pool} broken nonsense")), ":0\r\n");
    let records = || ["long", "broken"].map(|name| command(&bench, &format!("HGET {pool} {name}")));
    let before = records();

    let change = changing(|policy| policy.ttr = Some(HOUR));
    let names = ["long", "broken", "sound", "absent"];
    let jobs = names.map(|name| (target(&id(name)), change.clone())).to_vec();
    let replies = bench.call::<verb::Reschedule>(bench.bucket(&id("long")), jobs).await;
    let ttrs: Vec<_> = replies.into_iter().map(|reply| reply.map(|job| job.policy.ttr)).collect();
    let damaged = Err(Refusal::Damaged);
    assert_eq!(ttrs, [damaged.clone(), damaged, Ok(HOUR), Err(Refusal::NotFound)]);
    assert_eq!(records(), before);
    // A new body repairs the job.
    let change = Change { body: Some("1".into()), ..Change::default() };
    assert_eq!(bench.reschedule(&id("long"), change).await.map(|job| job.body), Ok("1".into()));
}

#[tokio::test]
async fn a_kick_of_a_topic_does_not_stop_at_unreadable_jobs() {
    let bench = Bench::one_bucket_redis().await;
    for name in ["gone", "sound"] {
        let policy = Policy { priority: Priority::MAX, ..Policy::STANDARD };
        bench.put(NewJob { policy, ..job(name, "t") }).await.expect("put");
        let held = held(&bench.pop_one("t").await);
        let bury = vec![Bury { held, error: None }];
        bench.call::<verb::Bury>(bench.bucket(&id(name)), bury).await;
        bench.advance(SECOND);
    }
    for kind in ["pool", "attempts"] {
        let hash = key(&bench, "gone", kind);
        assert_eq!(command(&bench, &format!("HDEL {hash} gone")), ":1\r\n");
    }
    for kicked in [1, 1, 0] {
        let kick = KickDead { topic: topic("t"), limit: 1 };
        let done = bench.store.call_in::<verb::KickDead>(bench.bucket(&id("gone")), kick).await;
        assert_eq!(done.expect("kicked").count, kicked);
    }
    assert_eq!(bench.pop("t", 2).await.len(), 1);
}

/// Opens a store in this Redis, and joins as a server that subscribes to hints.
async fn join(redis: &Redis) -> (RedisStore, Subscription) {
    let options = Options { buckets: None, clock: Clock::Own, create: true };
    let store = RedisStore::open(redis_options(&redis.url(), "dq"), options).await.expect("opened");
    let hints = store.join().await.expect("the first call");
    (store, hints)
}

async fn until(message: &str, holds: impl AsyncFn() -> bool) {
    eventually!(holds().await, "{message}");
}

#[tokio::test]
async fn servers_see_each_other_in_a_full_redis_until_they_leave() {
    let redis = Redis::start();
    let (one, _heard) = join(&redis).await;
    assert!(one.is_alone() && one.servers().expect("read").ids.len() == 1);
    redis.command("CONFIG SET maxmemory 1").expect("an answer");
    let (other, _heard_too) = join(&redis).await;
    let is_pair = |store: &RedisStore| store.servers().is_some_and(|all| all.ids.len() == 2);
    assert!(is_pair(&other) && !other.is_alone());
    until("the server does not see the other one", async || is_pair(&one) && !one.is_alone()).await;
    // Checks for longer than a lease lasts.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(4) {
        let asked = Instant::now();
        tokio::time::sleep(Duration::from_millis(50)).await; // the test needs this time to pass
        let leases = one.leases().await.expect("leases");
        let are_held = leases.len() == 2 && is_pair(&one) && is_pair(&other);
        // A lease of a machine that stalls may end.
        assert!(are_held || asked.elapsed() > Duration::from_secs(1), "{leases:?}");
    }
    until("the leases are not renewed", async || is_pair(&one) && is_pair(&other)).await;
    let (ours, theirs) = (one.servers().expect("read"), other.servers().expect("read"));
    assert!(ours.ids == theirs.ids && ours.ids.is_sorted() && ours.own + theirs.own == 1);

    other.close().await;
    assert_eq!(one.leases().await.expect("leases").len(), 1);
    until("the server still sees the other one", async || one.is_alone()).await;
}

#[tokio::test]
async fn a_server_that_cannot_read_the_leases_is_not_alone() {
    let redis = Redis::start();
    let (store, _heard) = join(&redis).await;
    assert!(store.is_alone());
    redis.command("SET {dq:topics}:servers x").expect("an answer");
    until("the server does not notice that the leases are unreadable", async || {
        !store.is_alone() && store.servers().is_none()
    })
    .await;
    store.leases().await.expect_err("the key of leases is no sorted set");
    redis.command("DEL {dq:topics}:servers").expect("an answer");
    until("the server does not recover", async || store.is_alone()).await;
}

#[tokio::test]
async fn leases_of_another_clock_end_like_others() {
    let redis = Redis::start();
    for (score, id) in [("+inf", "a"), ("9e15", "b"), ("-inf", "c"), ("1.5", "d")] {
        redis.command(&format!("ZADD {{dq:topics}}:servers {score} {id}")).expect("an answer");
    }
    let (store, _heard) = join(&redis).await;
    // Leases in the future count, since they may be renewed.
    assert_eq!(store.servers().expect("read").ids.len(), 3);
    until("the leases of the other clock do not end", async || store.is_alone()).await;
    assert_eq!(redis.command("ZCARD {dq:topics}:servers").as_deref(), Some(":1\r\n"));
}

/// Puts a job of topic `t` that moves to `dead` when it dies, which is at the end of its TTR.
async fn put_moving(bench: &Bench, name: &str, length: usize) {
    let new = with(job(name, "t"), |policy| {
        (policy.max_attempts, policy.dead_to) = (1, Some(topic("dead")));
    });
    bench.put(NewJob { body: text(length), ..new }).await.expect("put");
}

#[tokio::test]
async fn a_damaged_job_does_not_move() {
    let bench = Bench::one_bucket_redis().await;
    for name in ["body", "rules"] {
        put_moving(&bench, name, 5_000).await;
        if name == "body" {
            let bodies = key(&bench, name, "bodies");
            command(&bench, &format!("HSET {bodies} {name} short"));
            let popped = bench.pop_in(bench.bucket(&id(name)), vec![want("t", 1)]).await.remove(0);
            assert_eq!((popped.jobs.len(), popped.dead), (0, 1), "{popped:?}");
        } else {
            bench.pop_one("t").await;
            for kind in ["pool", "attempts"] {
                let hash = key(&bench, name, kind);
                command(&bench, &format!("HSET {hash} {name} nonsense"));
            }
            bench.promote_after(MINUTE).await;
            bench.pop("t", 1).await;
        }
        assert_eq!(bench.damaged("t", State::Dead).await, [id(name)], "{name}");
        assert_eq!(bench.ready("dead").await, 0, "{name}");
        bench.delete(&id(name)).await.expect("deleted");
    }
}

#[tokio::test]
async fn a_job_stays_dead_if_the_set_of_the_other_topic_is_none() {
    let bench = Bench::one_bucket_redis().await;
    for name in ["a", "b"] {
        put_moving(&bench, name, 10).await;
    }
    let popped = bench.pop("t", 2).await;
    let pool = key(&bench, "a", "pool");
    let ready = format!("{}ready:dead", pool.strip_suffix("pool").expect("a pool"));
    assert_eq!(command(&bench, &format!("SET {ready} text")), "+OK\r\n");
    bench.bury(&popped[0].id, Some(popped[0].reservation)).await.expect("buried");
    bench.promote_after(MINUTE).await;
    for name in ["a", "b"] {
        let dead = bench.job(name).await;
        assert_eq!((dead.state, dead.topic), (State::Dead, topic("t")));
    }
}
