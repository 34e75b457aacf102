//! Damaged records on Redis. Whatever field of a record is damaged, after every transition each job
//! is in exactly one set, and the other jobs are unaffected.

use sha1_smol::Sha1;

use crate::store::prelude::*;
use crate::store::redis_only::ConnectedBench;

const WRONG: [&str; 7] = ["", "x", "99999999999999999999999", "99999999999999", "-1", "nan", "inf"];

/// Script that returns the problems in the bucket with this tag, one line each.
pub const INVARIANTS: &str = r"
local tag, problems, places = ARGV[1], {}, {}
local function wrong(what) problems[#problems + 1] = what end
for _, key in ipairs(redis.call('KEYS', tag .. ':*')) do
  local state, topic = string.match(string.sub(key, #tag + 2), '^(%l+):(.+)$')
  if state then
    if not redis.call('ZSCORE', tag .. ':topics', topic) then wrong('no name of ' .. key) end
    for _, id in ipairs(state == 'expiring' and {} or redis.call('ZRANGE', key, 0, -1)) do
      local record = redis.call('HGET', tag .. ':pool', id) or ''
      local expires_at = string.match(record, '^[^\n]*[ ;]e=(%d+)')
      if expires_at and (state == 'delayed' or state == 'ready') then
        local found = redis.call('ZSCORE', tag .. ':expiring:' .. topic, id)
        if found ~= expires_at then wrong(id .. ' of ' .. key .. ' does not expire') end
      end
      if places[id] then wrong(id .. ' is in ' .. key .. ' and in ' .. places[id]) end
      places[id] = key
      if redis.call('HEXISTS', tag .. ':pool', id) == 0 then wrong(id .. ' of ' .. key .. ' has no record') end
    end
    if state ~= 'ready' then
      local head = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
      local word = redis.call('ZSCORE', tag .. (state == 'delayed' and ':bucket' or ':ends'), state .. ':' .. topic)
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

/// Calls with the damaged job and undamaged ones.
const ACTIONS: [&str; 19] = [
    "pop",
    "finish",
    "finish by id",
    "release",
    "touch",
    "bury",
    "unpop",
    "kick",
    "kick dead",
    "kick matching",
    "delete",
    "remember",
    "purge",
    "purge matching",
    "reschedule",
    "replace",
    "keep",
    "promote",
    "peek",
];

struct Case {
    redis: ConnectedBench,
    tag: String,
}

impl Case {
    async fn new() -> Self {
        let mut redis = ConnectedBench::new().await;
        let keys = redis.ask(&["KEYS", "{fresh:*}:incarnation"]).texts();
        let tag = keys[0].trim_end_matches(":incarnation").to_owned();
        Self { redis, tag }
    }

    /// Puts and pops these jobs and brings them into this state. Returns their last reservations.
    async fn arrange(&self, names: &[&str], state: State, retention: Millis) -> Vec<Reservation> {
        let bench = &self.redis.bench;
        for name in names {
            let new = with(job(name, "t"), |policy| {
                let waits = state == State::Delayed;
                policy.backoff = waits.then(|| backoff("exp:3600000:2:7200000:0"));
                policy.finished_retention = retention;
            });
            bench.put(new).await.expect("put");
        }
        let mut reservations = Vec::new();
        for (popped, name) in bench.pop("t", 9).await.into_iter().zip(names) {
            assert_eq!(popped.id, id(name));
            let (id, hold) = (popped.id, Some(popped.reservation));
            match state {
                State::Delayed => drop(bench.release(&id, None, None).await),
                State::Ready => drop(bench.release(&id, None, Some(Millis::ZERO)).await),
                State::Dead => drop(bench.bury(&id, None).await),
                State::Reserved => {}
                State::Finished => drop(bench.finish_with(&id, hold, Some("[1]".into())).await),
            }
            reservations.push(popped.reservation);
        }
        assert_eq!(reservations.len(), names.len());
        reservations
    }

    /// Makes a call. A store may refuse jobs, and answers each call.
    async fn action(&self, action: &str, names: &[&str], reservations: &[Reservation]) {
        let bench = &self.redis.bench;
        let bucket = bench.bucket(&id("a"));
        let ids: Vec<JobId> = names.iter().map(|name| id(name)).collect();
        let held = ids.iter().zip(reservations).map(|(id, one)| job_ref(id, Some(*one)));
        let put = async |on_conflict| {
            let jobs = names.iter().map(|name| NewJob { on_conflict, ..job(name, "t") });
            bench.call::<verb::Put>(bucket, jobs.collect()).await
        };
        let error = || Some("e".to_owned());
        // Reads the last error of each job.
        let filter = JobFilter { error_contains: error(), ..JobFilter::default() };
        let selection = |state| {
            let filter = filter.clone();
            Selection { topic: topic("t"), state, filter, after: None, limit: 9 }
        };
        match action {
            "pop" => drop(bench.pop_in(bucket, vec![want("t", 9)]).await),
            "finish" => {
                bench.call::<verb::Finish>(bucket, held.map(finishing).collect()).await;
            }
            "finish by id" => {
                let by_id = held.map(|held| finishing(job_ref(&held.id, None)));
                bench.call::<verb::Finish>(bucket, by_id.collect()).await;
            }
            "release" => {
                let release = |held| Release { error: error(), ..Release::new(held) };
                bench.call::<verb::Release>(bucket, held.map(release).collect()).await;
            }
            "touch" => {
                let touches = held.map(|held| Touch { held, ttr: None }).collect();
                bench.call::<verb::Touch>(bucket, touches).await;
            }
            "bury" => {
                let buries = held.map(|held| Bury { held, error: None }).collect();
                bench.call::<verb::Bury>(bucket, buries).await;
            }
            "unpop" => drop(bench.call::<verb::Unpop>(bucket, held.collect()).await),
            "kick" => {
                bench.call::<verb::Kick>(bucket, ids.iter().map(target).collect()).await;
            }
            "kick dead" => {
                let kick = KickDead { topic: topic("t"), limit: 9 };
                bench.call::<verb::KickDead>(bucket, kick).await;
            }
            "kick matching" => {
                for state in [State::Delayed, State::Dead] {
                    bench.call::<verb::KickMatching>(bucket, selection(state)).await;
                }
            }
            "delete" | "remember" => {
                let remember = (action == "remember").then_some(HOUR);
                let deletes = ids.iter().map(|id| Delete { remember, ..deletion(id) });
                bench.call::<verb::Delete>(bucket, deletes.collect()).await;
            }
            "reschedule" => {
                let changes = ids.iter().map(|id| (target(id), due_in(HOUR))).collect();
                bench.call::<verb::Reschedule>(bucket, changes).await;
            }
            "replace" => drop(put(OnConflict::Replace).await),
            "keep" => drop(put(OnConflict::Keep).await),
            "promote" => {
                for span in [MINUTE, HOUR, RETENTION] {
                    bench.promote_after(span).await;
                }
            }
            "peek" => {
                drop(bench.store.get(bucket, target(&ids[0])).await);
                for state in State::ALL {
                    bench
                        .list(bucket, "t", state, JobRange { limit: 9, ..JobRange::default() })
                        .await;
                }
            }
            "purge" => {
                for state in State::ALL {
                    let purge = Purge { topic: topic("t"), state, limit: 9 };
                    bench.call::<verb::Purge>(bucket, purge).await;
                }
            }
            "purge matching" => {
                for state in State::ALL {
                    bench.call::<verb::PurgeMatching>(bucket, selection(state)).await;
                }
            }
            _ => unreachable!("no action {action}"),
        }
    }

    /// Returns the record of the first job in a hash.
    fn record(&mut self, key: &str) -> Vec<u8> {
        let script = "return (string.gsub(redis.call('HGET', KEYS[1], 'a'), '.', function(byte) \
                      return string.format('%02x', string.byte(byte)) end))";
        let digits = self.redis.ask(&["EVAL", script, "1", key]).text().to_owned();
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        digits.as_bytes().chunks(2).map(|pair| byte(pair).expect("two digits")).collect()
    }

    fn clear(&mut self) {
        let script = "for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':*')) do \
                      if key ~= ARGV[1] .. ':incarnation' then redis.call('DEL', key) end end return 0";
        let tag = self.tag.clone();
        assert_eq!(self.redis.ask(&["EVAL", script, "0", &tag]), Reply::Number(0));
    }
}

/// Returns copies of a finished job's record. In each copy, one field of the header has a wrong
/// value.
fn damaged_finished_records(record: &[u8]) -> Vec<Vec<u8>> {
    const NUMBERS: usize = 19;
    let end = NUMBERS + record[NUMBERS..].iter().position(|byte| *byte == b'\n').expect("a header");
    let (header, body) = record.split_at(end);
    let fields: Vec<&str> = str::from_utf8(&header[NUMBERS..]).expect("text").split(' ').collect();
    let mut headers = Vec::new();
    // The creation time and the reservation.
    for (first, last) in [(5, 11), (11, NUMBERS)] {
        for byte in [0, 0xff] {
            let mut header = header.to_vec();
            header[first..last].fill(byte);
            headers.push(header);
        }
    }
    for at in 0..fields.len() {
        for wrong in wrong_fields(fields[at]) {
            let mut fields = fields.clone();
            fields[at] = &wrong;
            headers.push([&header[..NUMBERS], fields.join(" ").as_bytes()].concat());
        }
    }
    let mut all = vec![Vec::new(), b"nonsense".to_vec(), b"6".to_vec(), header.to_vec()];
    all.extend([5, 11, NUMBERS].map(|length| record[..length].to_vec()));
    all.push([record, b"x"].concat());
    for header in headers {
        // One copy has the old checksum, and one has the checksum of the wrong value.
        all.push([&header[..], body].concat());
        let sum = Sha1::from([b"a ", &header[5..]].concat()).digest().bytes();
        all.push([b"6", &sum[..4], &header[5..], body].concat());
    }
    all.retain(|text| text != record);
    all
}

/// Returns such copies of another record.
fn damaged_text_records(record: &str) -> Vec<String> {
    let (header, body) = record.split_once('\n').expect("a header");
    let fields: Vec<&str> = header.split(' ').collect();
    // Three fields follow the checksum.
    let sum_at = fields.len() - 4;
    let mut all =
        vec![String::new(), "nonsense".to_owned(), header.to_owned(), record.replace(' ', "  ")];
    all.push(format!("{header}\n{body}{body}x"));
    for at in 0..fields.len() {
        for wrong in wrong_fields(fields[at]) {
            let mut fields = fields.clone();
            fields[at] = &wrong;
            let record = format!("{}\n{body}", fields.join(" "));
            // One copy has the old checksum, and one has the checksum of the wrong value.
            all.push(record.clone());
            // With a valid checksum, another length is no damage: the long body may be on another
            // node.
            let is_length = at == sum_at + 1;
            all.extend(
                with_valid_checksum(&fields, sum_at)
                    .filter(|_| !is_length)
                    .map(|header| format!("{header}\n{body}")),
            );
        }
    }
    all
}

/// Returns the header with a valid checksum, if its checksum is not valid.
fn with_valid_checksum(fields: &[&str], sum_at: usize) -> Option<String> {
    let crc = fields[sum_at].get(8..).unwrap_or(fields[sum_at]);
    let rest = format!("{crc} {}", fields[sum_at + 1..].join(" "));
    let sum = Sha1::from(format!("a {rest}")).digest().to_string()[..8].to_owned();
    (!fields[sum_at].starts_with(&sum))
        .then(|| format!("{} {sum}{rest}", fields[..sum_at].join(" ")))
}

/// Returns wrong values of a field. For a list, also returns lists in which one part is wrong.
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

/// Makes each action on a third of the damaged records. Any three successive actions cover all of
/// them.
async fn check_every_damage(hash: &str, state: State, retention: Millis) {
    let names = ["a", "b", "c"];
    let mut case = Case::new().await;
    let key = format!("{}:{hash}", case.tag);
    case.arrange(&names, state, retention).await;
    let record = case.record(&key);
    let all = match str::from_utf8(&record) {
        Ok(text) if !text.starts_with('6') => {
            damaged_text_records(text).into_iter().map(String::into_bytes).collect()
        }
        _ => damaged_finished_records(&record),
    };
    for (number, action) in ACTIONS.into_iter().enumerate() {
        // Finds the states of the other jobs without damage.
        case.clear();
        let reservations = case.arrange(&names, state, retention).await;
        case.action(action, &names, &reservations).await;
        let expected =
            [case.redis.bench.state(&id("b")).await, case.redis.bench.state(&id("c")).await];
        for text in all.iter().skip(number % 3).step_by(3) {
            case.clear();
            let reservations = case.arrange(&names, state, retention).await;
            let words = ["HSET".as_bytes(), key.as_bytes(), b"a", text];
            case.redis.ask(&words);
            let name = format!("{action} of {state:?} with {hash} {}", text.escape_ascii());
            println!("{name}");
            case.action(action, &names, &reservations).await;
            assert_eq!(case.redis.problems(&case.tag), [""; 0], "{name}");
            let others =
                [case.redis.bench.state(&id("b")).await, case.redis.bench.state(&id("c")).await];
            assert_eq!(others, expected, "{name}");
            // A pop may quarantine the job. A delete must remove it.
            case.action("pop", &names, &[]).await;
            assert_eq!(case.redis.problems(&case.tag), [""; 0], "{name}, then popped");
            let _ = case.redis.bench.delete(&id("a")).await;
            assert_eq!(case.redis.problems(&case.tag), [""; 0], "{name}, then deleted");
            case.redis.bench.put(job("a", "u")).await.unwrap_or_else(|r| panic!("{name}: {r:?}"));
        }
    }
}

macro_rules! damages {
    ($($name:ident: $hash:literal $state:ident $retention:expr;)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            check_every_damage($hash, State::$state, $retention).await;
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
async fn a_key_of_another_type_does_not_stop_other_topics() {
    for broken in ["ready:t", "delayed:t", "reserved:t", "dead:t", "finished:t"] {
        let mut case = Case::new().await;
        case.redis.bench.put(delayed("a", "t", SECOND)).await.expect("put");
        case.redis.bench.put(delayed("b", "u", SECOND)).await.expect("put");
        let key = format!("{}:{broken}", case.tag);
        let there = case.redis.ask(&["DUMP", &key]);
        if there != Reply::Nothing {
            case.redis.ask(&["RENAME", &key, "elsewhere"]);
        }
        case.redis.ask(&["SET", &key, "x"]);
        case.redis.bench.promote_after(SECOND).await;
        assert_eq!(case.redis.bench.pop_one("u").await.id, id("b"), "{broken}");
        case.redis.ask(&["DEL", &key]);
        if there != Reply::Nothing {
            case.redis.ask(&["RENAME", "elsewhere", &key]);
        }
        case.redis.bench.promote_after(MINUTE).await;
        assert_eq!(case.redis.bench.pop_one("t").await.id, id("a"), "{broken}");
        assert_eq!(case.redis.problems(&case.tag), [""; 0], "{broken}");
    }
}
