//! Damaged records on Redis: whatever field of whichever record is broken, every transition leaves
//! each job in one place, and other jobs as if nothing were damaged.

use crate::store::bench::verb;
use delay_queue::{
    job::{Change, JobId, Millis, NewJob, OnConflict, Reservation, Schedule, State, Topics},
    store::{Bury, Delete, JobRange, JobRef, KickDead, PopRequest, Purge, Release, Touch},
};
use sha1_smol::Sha1;

use crate::{
    store::bench::{
        Bench, HOUR, Home, MINUTE, RETENTION, SECOND, delayed, deletion, finishing, id, job, nonce,
        target, with,
    },
    support::resp::{Connection, Reply},
};

const WRONG: [&str; 7] = ["", "x", "99999999999999999999999", "99999999999999", "-1", "nan", "inf"];

/// Script that returns the problems in the bucket of this tag, one line each.
pub const INVARIANTS: &str = r"
local tag, problems, places = ARGV[1], {}, {}
local function wrong(what) problems[#problems + 1] = what end
for _, key in ipairs(redis.call('KEYS', tag .. ':*')) do
  local state, topic = string.match(string.sub(key, #tag + 2), '^(%l+):(.+)$')
  if state then
    if not redis.call('ZSCORE', tag .. ':topics', topic) then wrong('no name of ' .. key) end
    for _, id in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      if places[id] then wrong(id .. ' is in ' .. key .. ' and in ' .. places[id]) end
      places[id] = key
      if redis.call('HEXISTS', tag .. ':pool', id) == 0 then wrong(id .. ' of ' .. key .. ' has no record') end
    end
    if state ~= 'ready' then
      local head = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
      local word = redis.call('ZSCORE', tag .. ':bucket', state .. ':' .. topic)
      if not word or tonumber(word) > tonumber(head) then wrong('the timer does not know of ' .. key) end
    end
  end
end
for _, hash in ipairs({ 'pool', 'attempts', 'bodies' }) do
  for _, id in ipairs(redis.call('HKEYS', tag .. ':' .. hash)) do
    if not places[id] then wrong(id .. ' of ' .. hash .. ' is in no set') end
  end
end
return problems";

/// Act on the damaged job, and on a sound one in the same call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    Pop,
    Finish,
    FinishById,
    Release,
    Touch,
    Bury,
    Unpop,
    Kick,
    KickDead,
    Delete,
    Remember,
    Purge,
    Reschedule,
    Replace,
    Keep,
    Promote,
    Peek,
}

const ACTS: [Act; 17] = [
    Act::Pop,
    Act::Finish,
    Act::FinishById,
    Act::Release,
    Act::Touch,
    Act::Bury,
    Act::Unpop,
    Act::Kick,
    Act::KickDead,
    Act::Delete,
    Act::Remember,
    Act::Purge,
    Act::Reschedule,
    Act::Replace,
    Act::Keep,
    Act::Promote,
    Act::Peek,
];

struct Case {
    bench: Bench,
    connection: Connection,
    tag: String,
}

impl Case {
    async fn new() -> Self {
        let bench = Bench::one_bucket_redis().await;
        let Home::Redis(redis) = &bench.home else { unreachable!("this store is on Redis") };
        let mut connection = Connection::to(redis.port()).expect("a Redis that runs");
        let keys = connection.ask(&["KEYS", "{fresh:*}:incarnation"]).expect("an answer").texts();
        let tag = keys[0].trim_end_matches(":incarnation").to_owned();
        Self { bench, connection, tag }
    }

    fn ask(&mut self, words: &[&str]) -> Reply {
        self.connection.ask(words).expect("an answer")
    }

    /// Puts these jobs in this state, popped before, and returns their last reservations.
    async fn arrange(&self, names: &[&str], state: State, retention: Millis) -> Vec<Reservation> {
        let backoff =
            (state == State::Delayed).then(|| "exp:3600000:2:7200000:0".parse().expect("one"));
        let mut reservations = Vec::new();
        for name in names {
            self.bench
                .put(with(job(name, "t"), |policy| {
                    policy.backoff.clone_from(&backoff);
                    policy.finished_retention = retention;
                }))
                .await
                .expect("put");
            let popped = self.bench.pop_one("t").await;
            reservations.push(popped.reservation);
            match state {
                State::Delayed => drop(self.bench.release(&popped.id, None, None).await),
                State::Ready => {
                    drop(self.bench.release(&popped.id, None, Some(Millis::ZERO)).await)
                }
                State::Dead => drop(self.bench.bury(&popped.id, None).await),
                State::Reserved => {}
                State::Finished => {
                    let hold = Some(popped.reservation);
                    drop(self.bench.finish_with(&popped.id, hold, Some("[1]".into())).await);
                }
            }
        }
        if state == State::Ready {
            // They were popped one after another, each when it was the only ready one.
            self.bench.advance(SECOND);
        }
        reservations
    }

    async fn act(&self, act: Act, names: &[&str], reservations: &[Reservation]) {
        let bench = &self.bench;
        let (store, bucket) = (&bench.store, bench.bucket(&id("a")));
        let ids: Vec<JobId> = names.iter().map(|name| id(name)).collect();
        let held = || {
            let held = |(id, reservation): (&JobId, &Reservation)| JobRef {
                id: id.clone(),
                reservation: Some(*reservation),
                topics: Topics::ALL,
            };
            ids.iter().zip(reservations).map(held).collect::<Vec<_>>()
        };
        let topic = || "t".parse().expect("a topic");
        let what = &*format!("{act:?} goes well");
        match act {
            Act::Pop => {
                let want = PopRequest { topic: topic(), count: 9, ttr: None, consumer: None };
                drop(store.call_in::<verb::Pop>(bucket, (nonce(), vec![want])).await.expect(what));
            }
            Act::Finish => {
                let finish = held().into_iter().map(finishing).collect();
                drop(store.call_in::<verb::Finish>(bucket, finish).await.expect(what));
            }
            Act::FinishById => {
                let held = held().into_iter().map(|held| JobRef { reservation: None, ..held });
                let finish = held.map(finishing).collect();
                drop(store.call_in::<verb::Finish>(bucket, finish).await.expect(what));
            }
            Act::Release => {
                let release = |held| Release { held, delay: None, error: Some("e".to_owned()) };
                drop(
                    store
                        .call_in::<verb::Release>(bucket, held().into_iter().map(release).collect())
                        .await
                        .expect(what),
                );
            }
            Act::Touch => {
                let touch = |held| Touch { held, ttr: None };
                drop(
                    store
                        .call_in::<verb::Touch>(bucket, held().into_iter().map(touch).collect())
                        .await
                        .expect(what),
                );
            }
            Act::Bury => {
                let bury = |held| Bury { held, error: None };
                drop(
                    store
                        .call_in::<verb::Bury>(bucket, held().into_iter().map(bury).collect())
                        .await
                        .expect(what),
                );
            }
            Act::Unpop => drop(store.call_in::<verb::Unpop>(bucket, held()).await.expect(what)),
            Act::Kick => drop(
                store
                    .call_in::<verb::Kick>(bucket, ids.iter().map(target).collect())
                    .await
                    .expect(what),
            ),
            Act::KickDead => drop(
                store
                    .call_in::<verb::KickDead>(bucket, KickDead { topic: topic(), limit: 9 })
                    .await
                    .expect(what),
            ),
            Act::Delete => drop(
                store
                    .call_in::<verb::Delete>(bucket, ids.iter().map(deletion).collect())
                    .await
                    .expect(what),
            ),
            Act::Remember => {
                let remember = |id| Delete { remember: Some(HOUR), ..deletion(id) };
                let deletes = ids.iter().map(remember).collect();
                drop(store.call_in::<verb::Delete>(bucket, deletes).await.expect(what));
            }
            Act::Purge => {
                for state in State::ALL {
                    store
                        .call_in::<verb::Purge>(bucket, Purge { topic: topic(), state, limit: 9 })
                        .await
                        .expect(what);
                }
            }
            Act::Reschedule => {
                let change = Change { schedule: Some(Schedule::In(HOUR)), ..Change::default() };
                let jobs = ids.into_iter().map(|id| (target(&id), change.clone())).collect();
                drop(store.call_in::<verb::Reschedule>(bucket, jobs).await.expect(what));
            }
            Act::Replace | Act::Keep => {
                let on_conflict =
                    if act == Act::Keep { OnConflict::Keep } else { OnConflict::Replace };
                let jobs = names.iter().map(|name| NewJob { on_conflict, ..job(name, "t") });
                drop(store.call_in::<verb::Put>(bucket, jobs.collect()).await.expect(what));
            }
            Act::Promote => {
                for span in [MINUTE, HOUR, RETENTION] {
                    bench.advance(span);
                    drop(bench.promote().await);
                }
            }
            Act::Peek => {
                let _ = store.get(bucket, target(&ids[0])).await;
                for state in State::ALL {
                    store
                        .list(bucket, topic(), state, JobRange { limit: 9, ..JobRange::default() })
                        .await
                        .expect(what);
                }
            }
        }
    }

    fn clear(&mut self) {
        let script = "for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':*')) do \
                      if key ~= ARGV[1] .. ':incarnation' then redis.call('DEL', key) end end return 0";
        let tag = self.tag.clone();
        assert_eq!(self.ask(&["EVAL", script, "0", &tag]), Reply::Number(0));
    }

    fn problems(&mut self) -> Vec<String> {
        let tag = self.tag.clone();
        let answer = self.ask(&["EVAL", INVARIANTS, "0", &tag]);
        assert!(matches!(answer, Reply::Many(_)), "{answer:?}");
        answer.texts()
    }
}

/// Returns the record with each of its header's fields replaced with each wrong value.
fn damaged(record: &str) -> Vec<String> {
    let (header, body) = record.split_once('\n').expect("a header");
    let fields: Vec<&str> = header.split(' ').collect();
    // The sum is followed by three fields, and then by the ending of a finished job.
    let sum_at = fields.len() - if fields[0] == "5" { 8 } else { 4 };
    let mut all =
        vec![String::new(), "nonsense".to_owned(), header.to_owned(), record.replace(' ', "  ")];
    all.push(format!("{header}\n{body}{body}x"));
    for at in 0..fields.len() {
        for wrong in wrong_fields(fields[at]) {
            let mut fields = fields.clone();
            fields[at] = &wrong;
            let record = format!("{}\n{body}", fields.join(" "));
            // Once as damage leaves it, once with a checksum made of it.
            all.push(record.clone());
            // A long body that is missing is not damage: it is on another node.
            let is_length = at == sum_at + 1;
            all.extend(
                sealed(&fields, sum_at)
                    .filter(|_| !is_length)
                    .map(|header| format!("{header}\n{body}")),
            );
        }
    }
    all
}

/// Returns the header with the right checksum, if that is another one.
fn sealed(fields: &[&str], place: usize) -> Option<String> {
    let crc = fields[place].get(8..).unwrap_or(fields[place]);
    let rest = format!("{crc} {}", fields[place + 1..].join(" "));
    let sum = Sha1::from(format!("a {rest}")).digest().to_string()[..8].to_owned();
    (!fields[place].starts_with(&sum)).then(|| format!("{} {sum}{rest}", fields[..place].join(" ")))
}

/// Returns the wrong values of a field; in a list, each part is replaced with each of them too.
fn wrong_fields(field: &str) -> Vec<String> {
    let mut all: Vec<String> = WRONG.map(str::to_owned).to_vec();
    let parts: Vec<&str> = field.split(',').collect();
    for at in 0..parts.len() {
        for wrong in WRONG.iter().filter(|_| parts.len() > 1) {
            let mut parts = parts.clone();
            parts[at] = wrong;
            all.push(parts.join(","));
        }
    }
    all
}

/// Makes each act on a third of the damages; any three acts in a row cover all of them.
async fn every_damage(hash: &str, state: State, retention: Millis) {
    let names = ["a", "b", "c"];
    let mut case = Case::new().await;
    let key = format!("{}:{hash}", case.tag);
    case.arrange(&names, state, retention).await;
    let all = damaged(case.ask(&["HGET", &key, "a"]).text());
    for (number, act) in ACTS.into_iter().enumerate() {
        // The other jobs' states if nothing is damaged.
        case.clear();
        let reservations = case.arrange(&names, state, retention).await;
        case.act(act, &names, &reservations).await;
        let expected = [case.bench.state(&id("b")).await, case.bench.state(&id("c")).await];
        for text in all.iter().skip(number % 3).step_by(3) {
            case.clear();
            let reservations = case.arrange(&names, state, retention).await;
            case.ask(&["HSET", &key, "a", text]);
            case.act(act, &names, &reservations).await;
            let name = format!("{act:?} of {state:?} with {hash} {text:?}");
            assert_eq!(case.problems(), Vec::<String>::new(), "{name}");
            let others = [case.bench.state(&id("b")).await, case.bench.state(&id("c")).await];
            assert_eq!(others, expected, "{name}");
            // A pop may quarantine the job, and a delete removes it.
            case.act(Act::Pop, &names, &[]).await;
            assert_eq!(case.problems(), Vec::<String>::new(), "{name}, then popped");
            let _ = case.bench.delete(&id("a")).await;
            assert_eq!(case.problems(), Vec::<String>::new(), "{name}, then deleted");
            case.bench.put(job("a", "u")).await.unwrap_or_else(|r| panic!("{name}: {r:?}"));
        }
    }
}

macro_rules! damages {
    ($($name:ident: $hash:literal $state:ident $retention:expr;)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            every_damage($hash, State::$state, $retention).await;
        })+
    };
}

damages! {
    any_damage_of_a_delayed_jobs_record_concerns_it_alone: "pool" Delayed Millis::ZERO;
    any_damage_of_a_ready_jobs_record_concerns_it_alone: "pool" Ready Millis::ZERO;
    any_damage_of_a_reserved_jobs_record_concerns_it_alone: "pool" Reserved Millis::ZERO;
    any_damage_of_a_dead_jobs_record_concerns_it_alone: "pool" Dead Millis::ZERO;
    any_damage_of_a_finished_jobs_record_concerns_it_alone: "pool" Finished HOUR;
    any_damage_of_a_kept_jobs_record_concerns_it_alone: "pool" Reserved HOUR;
    any_damage_of_a_kept_jobs_attempt_record_concerns_it_alone: "attempts" Reserved HOUR;
    any_damage_of_a_delayed_jobs_attempt_record_concerns_it_alone: "attempts" Delayed Millis::ZERO;
    any_damage_of_a_ready_jobs_attempt_record_concerns_it_alone: "attempts" Ready Millis::ZERO;
    any_damage_of_a_reserved_jobs_attempt_record_concerns_it_alone: "attempts" Reserved Millis::ZERO;
    any_damage_of_a_dead_jobs_attempt_record_concerns_it_alone: "attempts" Dead Millis::ZERO;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_stops_no_other_topic() {
    for broken in ["ready:t", "delayed:t", "reserved:t", "dead:t", "finished:t"] {
        let mut case = Case::new().await;
        case.bench.put(delayed("a", "t", SECOND)).await.expect("put");
        case.bench.put(delayed("b", "u", SECOND)).await.expect("put");
        let key = format!("{}:{broken}", case.tag);
        let there = case.ask(&["DUMP", &key]);
        if there == Reply::Nothing {
            case.ask(&["SET", &key, "x"]);
        } else {
            case.ask(&["RENAME", &key, "elsewhere"]);
            case.ask(&["SET", &key, "x"]);
        }
        case.bench.advance(SECOND);
        case.bench.promote().await;
        assert_eq!(case.bench.pop_one("u").await.id, id("b"), "{broken}");
        case.ask(&["DEL", &key]);
        if there != Reply::Nothing {
            case.ask(&["RENAME", "elsewhere", &key]);
        }
        case.bench.advance(MINUTE);
        case.bench.promote().await;
        assert_eq!(case.bench.pop_one("t").await.id, id("a"), "{broken}");
        assert_eq!(case.problems(), Vec::<String>::new(), "{broken}");
    }
}
