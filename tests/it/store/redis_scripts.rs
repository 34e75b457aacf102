//! Every script of the Redis store, called twice as when a reply is lost and the client retries,
//! and cut off before its first write: the state is the model's before the call, or after exactly
//! one.
//!
//! The cut is a user who may not write: Redis then ends a script at its first command that writes.
//! MONITOR shows the commands after that one: they touch no key that the script has not looked at
//! before, so that no key of another type can end the script between two writes.

use std::{collections::BTreeSet, fs, panic::AssertUnwindSafe, path::Path};

use delay_queue::{
    job::{Job, Millis, NewJob, OnConflict, Reservation, Schedule, State, Topics},
    store::{
        Delete, JobRange, JobRef, Location as _, Options, Steps, Target, TokenChange, TopicPage,
        redis::RedisOptions,
    },
};
use futures::FutureExt as _;

use crate::{
    store::{
        bench::{Bench, Home, SECOND, changing, finishing, id, job, kept, peek_in, verb, with},
        calls::{Call, Hold, STEP},
        damage::INVARIANTS,
        equivalence::Side,
        workload::{Found, Step, World, go, long, pass, pop, put, settle},
    },
    support::resp::{Connection, Reply},
};

/// Call to send twice and to cut off.
#[derive(Debug, Clone)]
enum Act {
    Step(Step),
    /// The step, by a caller that may reach only some topics.
    Limited(Step),
}

/// Returns the cases: the steps before, and then the call.
fn cases() -> Vec<(Vec<Step>, Act)> {
    let call = Step::Call;
    let one = || Step::Puts(vec![put(0, "t0", 0)]);
    let held = || vec![one(), pop(0)];
    let again =
        |on_conflict| Step::Puts(vec![NewJob { on_conflict, body: "1".into(), ..put(0, "t0", 5) }]);
    let two = Step::Puts(vec![
        NewJob { body: long('a'), ..put(0, "t0", 0) },
        with(put(1, "t1", 3), |policy| policy.max_attempts = 1),
    ]);
    let create =
        || TokenChange::Create { name: "alice".to_owned(), text: "{}".to_owned(), is_admin: true };
    let finish = || call(Call::Finish { name: 0, hold: Hold::Last, result: None });
    let finish_with =
        |length| call(Call::Finish { name: 0, hold: Hold::Last, result: Some(length) });
    let retention = Millis::new(100 * STEP);
    // Its body is long, and so is the result of the second.
    let held_kept = || {
        let long = NewJob { body: long('a'), ..put(0, "t0", 0) };
        vec![Step::Puts(vec![kept(long, retention), put(1, "t0", 5)]), pop(0)]
    };
    let finished = || [held_kept(), vec![finish_with(5_000)]].concat();
    let delete = |only, remember| call(Call::Delete { name: 0, only, remember });
    let release = || call(Call::Release { name: 0, hold: Hold::Last, delay: Some(5 * STEP) });
    let bury = || call(Call::Bury { name: 0, hold: Hold::Last });
    let change = delay_queue::job::Change {
        schedule: Some(Schedule::In(Millis::new(9 * STEP))),
        body: Some(long('b')),
        ..changing(|policy| policy.ttr = Some(Millis::new(40 * STEP)))
    };
    let dead = || vec![one(), pop(0), bury()];
    let step = Act::Step;
    vec![
        (vec![], step(two.clone())),
        (vec![one()], step(again(OnConflict::Keep))),
        (vec![one()], step(again(OnConflict::Replace))),
        (vec![one()], step(pop(0))),
        (vec![two.clone()], step(pop(0))),
        (held(), step(call(Call::Unpop { name: 0 }))),
        (held(), step(finish())),
        (vec![two.clone(), pop(0)], step(finish())),
        (held(), Act::Limited(finish())),
        (held_kept(), step(finish())),
        (held_kept(), step(finish_with(20))),
        (held_kept(), step(finish_with(5_000))),
        ([held_kept(), vec![pass(40), call(Call::Promote)]].concat(), step(finish_with(20))),
        (finished(), step(finish_with(20))),
        (finished(), step(delete(None, None))),
        (finished(), step(delete(None, Some(50 * STEP)))),
        (finished(), step(again(OnConflict::Replace))),
        (
            finished(),
            step(call(Call::Purge { topic: 0, state: State::Finished as usize, limit: 9 })),
        ),
        (
            vec![Step::Puts(vec![kept(put(0, "t0", 0), retention)]), pop(0), finish(), pass(300)],
            step(call(Call::Promote)),
        ),
        (held_kept(), step(delete(None, Some(50 * STEP)))),
        (held(), step(release())),
        (held(), step(call(Call::Release { name: 0, hold: Hold::ById, delay: None }))),
        (held(), step(call(Call::Touch { name: 0, hold: Hold::Last, ttr: Some(50 * STEP) }))),
        (held(), step(bury())),
        (held(), step(call(Call::Bury { name: 0, hold: Hold::ById }))),
        (dead(), step(call(Call::Kick { name: 0 }))),
        (dead(), step(call(Call::KickDead { topic: 0, limit: 9 }))),
        (dead(), step(call(Call::Purge { topic: 0, state: State::Dead as usize, limit: 9 }))),
        (vec![two.clone()], step(delete(None, None))),
        (vec![two.clone()], step(delete(Some(15), None))),
        (vec![two.clone()], step(delete(Some(15), Some(50 * STEP)))),
        (vec![one()], Act::Limited(delete(None, None))),
        (vec![one()], step(Step::Change(0, change))),
        (vec![two.clone(), pass(4)], step(call(Call::Promote))),
        (vec![two.clone(), pop(0), pass(40)], step(call(Call::Promote))),
        (vec![two, pass(4), call(Call::Promote), pop(1), pass(40)], step(call(Call::Promote))),
        ([dead(), vec![pass(300)]].concat(), step(call(Call::Promote))),
        (
            vec![],
            step(call(Call::Restore {
                name: 3,
                topic: 0,
                state: State::Reserved as usize,
                attempt: 2,
            })),
        ),
        (
            vec![],
            step(call(Call::Restore {
                name: 3,
                topic: 0,
                state: State::Finished as usize,
                attempt: 2,
            })),
        ),
        (vec![], step(Step::Pause("t0", true))),
        (vec![Step::Pause("t0", true)], step(Step::Pause("t0", false))),
        (vec![], step(Step::PauseFor("t0", 5 * STEP))),
        (vec![Step::PauseFor("t0", 5 * STEP), pass(6)], step(Step::EndPause("t0"))),
        (vec![], step(Step::Defaults("t0", Some(7_000)))),
        (vec![], step(Step::Token(create()))),
        (vec![Step::Token(create())], step(Step::Used("alice", 5))),
        (
            vec![Step::Token(create())],
            step(Step::Token(TokenChange::Revoke { name: "alice".to_owned() })),
        ),
    ]
}

/// Redis whose commands are watched.
struct Watched {
    bench: Bench,
    port: u16,
    monitor: Connection,
    connection: Connection,
    marks: u64,
}

/// A command, and whether a script called it.
type Command = (bool, Vec<String>);

impl Watched {
    async fn new() -> Self {
        let bench = Bench::one_bucket_redis().await;
        let Home::Redis(redis) = &bench.home else { unreachable!("this store is on Redis") };
        let port = redis.port();
        let to = || Connection::to(port).expect("a Redis that runs");
        let (mut monitor, connection) = (to(), to());
        monitor.ask(&["MONITOR"]).expect("an answer");
        Self { bench, port, monitor, connection, marks: 0 }
    }

    fn ask(&mut self, words: &[&str]) -> Reply {
        self.connection.ask(words).expect("an answer")
    }

    /// Returns the commands that Redis received since the last time.
    fn asked(&mut self) -> Vec<Command> {
        self.marks += 1;
        let mark = format!("mark {}", self.marks);
        self.ask(&["ECHO", &mark]);
        let mut commands = Vec::new();
        loop {
            let line = self.monitor.next().expect("a line");
            let command = parsed(line.text());
            if command.1.get(1) == Some(&mark) {
                return commands;
            }
            commands.push(command);
        }
    }

    /// Sets whether clients may write.
    fn may_write(&mut self, may: bool) {
        let rule = if may { "+@all" } else { "-@write" };
        assert_eq!(self.ask(&["ACL", "SETUSER", "default", rule]), Reply::Text("OK".to_owned()));
    }

    /// Returns every key with a hash of its contents.
    fn contents(&mut self) -> Vec<String> {
        let script = "local all = {} for _, key in ipairs(redis.call('KEYS', '*')) do \
                      all[#all + 1] = key .. ' ' .. redis.sha1hex(redis.call('DUMP', key)) end \
                      table.sort(all) return all";
        self.ask(&["EVAL", script, "0"]).texts()
    }

    /// Sends a command again, with the same arguments.
    fn send_again(&mut self, command: &[String]) {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let reply = self.ask(&words);
        let errors = |reply: &Reply| matches!(reply, Reply::Error(_));
        assert!(!errors(&reply) && !reply.list().iter().any(errors), "{reply:?}");
    }
}

fn parsed(line: &str) -> Command {
    let (head, rest) = line.split_once("] ").expect("who asks");
    let (mut words, mut letters) = (Vec::new(), rest.chars());
    while letters.next() == Some('"') {
        let mut word = Vec::new();
        loop {
            match letters.next().expect("the end of a word") {
                '"' => break,
                '\\' => word.push(match letters.next().expect("a letter") {
                    'n' => b'\n',
                    'r' => b'\r',
                    't' => b'\t',
                    'a' => 7,
                    'b' => 8,
                    'x' => {
                        let digits: String = letters.by_ref().take(2).collect();
                        u8::from_str_radix(&digits, 16).expect("a byte")
                    }
                    other => u8::try_from(other).expect("ASCII"),
                }),
                other => word.push(u8::try_from(other).expect("ASCII")),
            }
        }
        let word = String::from_utf8_lossy(&word).into_owned();
        words.push(word);
        letters.next(); // the blank between
    }
    (head.ends_with("lua"), words)
}

fn is_script(command: &Command) -> bool {
    !command.0 && ["EVAL", "EVALSHA"].contains(&command.1[0].as_str())
}

const WRITES: [&str; 10] =
    ["ZADD", "ZREM", "ZREMRANGEBYRANK", "HSET", "HSETNX", "HDEL", "SET", "DEL", "HINCRBY", "INCR"];

/// Returns commands that are the first to touch a set of a topic, a bucket's set or the long bodies
/// after a write. A key of another type there would end the script between two writes. (Without the
/// pool and the attempts a bucket has no jobs, and the names of topics are written by `pcall`.)
fn unproved(commands: &[Command]) -> Vec<String> {
    let (mut seen, mut has_written, mut unproved) = (BTreeSet::new(), false, Vec::new());
    for (_, words) in commands.iter().filter(|(by_script, _)| *by_script) {
        let verb = words[0].to_uppercase();
        let Some(key) = words.get(1).filter(|key| key.contains("}:")) else { continue };
        let kind = key.split("}:").nth(1).unwrap_or_default();
        let matters = kind == "bucket" || kind == "bodies" || kind.contains(':');
        if has_written && matters && verb != "EXISTS" && !seen.contains(key) {
            unproved.push(format!("{verb} {kind}"));
        }
        // The member or field '' never exists: such a command changes nothing.
        let is_probe = words.last().is_some_and(String::is_empty);
        has_written |= WRITES.contains(&verb.as_str()) && !is_probe;
        seen.insert(key.clone());
    }
    unproved
}

/// Returns the keys that a script uses and its call does not declare, except sets of topics:
/// callers do not know those in advance; and except histories, whose errors scripts ignore.
fn undeclared(commands: &[Command]) -> Vec<String> {
    let (mut declared, mut undeclared) = (&[][..], Vec::new());
    for command @ (by_script, words) in commands {
        if is_script(command) {
            let count: usize = words[2].parse().expect("a number of keys");
            declared = &words[3..3 + count];
        }
        let Some(key) = words.get(1).filter(|key| *by_script && key.contains("}:")) else {
            continue;
        };
        let kind = key.split("}:").nth(1);
        let is_of_topic = kind.is_some_and(|kind| kind.contains(':') || kind == "history");
        // Only `contents` calls DUMP.
        if !is_of_topic && words[0] != "DUMP" && !declared.contains(key) {
            undeclared.push(key.clone());
        }
    }
    undeclared
}

/// Returns the files of which a script is made.
fn files_of(text: &str) -> impl Iterator<Item = String> {
    let all = scripts().into_iter();
    all.filter(move |(_, own)| own_parts(own).iter().all(|part| text.contains(part)))
        .map(|(name, _)| name)
}

/// Returns the parts of a file without the lines that include others.
fn own_parts(file: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in file.lines() {
        match parts.last_mut() {
            Some(part) if !line.starts_with("--- @include") => *part += &format!("{line}\n"),
            _ => parts.push(String::new()),
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Returns every script with the name of its file.
fn scripts() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/redis/scripts");
    let mut scripts = Vec::new();
    let mut folders = vec![dir];
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(folder).expect("a directory") {
            let path = file.expect("a file").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "lua") {
                let text = fs::read_to_string(&path).expect("a script");
                scripts.push((path.display().to_string(), text));
            }
        }
    }
    scripts
}

async fn limited(side: &mut Side, number: u64, step: &Step) {
    side.align(number);
    let (store, bucket) = (&side.bench.store, side.bench.bucket(&id("job:0")));
    let topics = Topics::of(vec!["t*".parse().expect("a pattern")]);
    match step {
        Step::Call(Call::Finish { .. }) => {
            let reservation = Some(side.given[0].1);
            let job = JobRef { id: id("job:0"), reservation, topics };
            drop(
                store.call_in::<verb::Finish>(bucket, vec![finishing(job)]).await.expect("finish"),
            );
        }
        Step::Call(Call::Delete { .. }) => {
            let target = Target { id: id("job:0"), topics };
            let delete = Delete { job: target, states: None, remember: None };
            drop(store.call_in::<verb::Delete>(bucket, vec![delete]).await.expect("delete"));
        }
        other => unreachable!("no limited {other:?}"),
    }
}

/// Hides the values of reservations, which are random; whether a job has one still shows.
fn hidden(mut found: Found) -> Found {
    for job in found.jobs.values_mut() {
        *job = Job { reservation: job.reservation.map(|_| Reservation::NONE), ..job.clone() };
    }
    found
}

/// Runs one case, and returns the files of the scripts that it has covered.
async fn twice_and_cut_off(redis: &mut Watched, before: Vec<Step>, act: Act) -> Vec<String> {
    let name: String = format!("{act:?}").chars().take(100).collect();
    let name = format!("{name} after {} steps", before.len());
    let (Act::Step(step) | Act::Limited(step)) = &act;
    let worlds = World::all(&[before.clone(), vec![step.clone()]].concat());
    let mut side = Side::new(redis.bench.fresh().await);
    for (number, step) in before.iter().enumerate() {
        go(&mut side, number as u64, step).await;
    }
    let untouched = redis.contents();
    let [.., last, world] = &worlds[..] else { unreachable!("two worlds at least") };
    let found = |world: &World| world.found(world.now(), Reservation::from_bits);
    let is_repeated =
        matches!(step, Step::Call(Call::Finish { .. })) && found(last) == found(world);
    let is_kept = is_repeated || world.answer().contains("Kept");
    let command = cut_off(redis, &mut side, before.len() as u64, &act, !is_kept).await;
    assert_eq!(redis.contents(), untouched, "{name}: it was cut off before its first write");

    redis.send_again(&command);
    // A put removes what it has created when it meets such a key; a promote checks each set by
    // itself before it writes there.
    let asked = redis.asked();
    assert_eq!(undeclared(&asked), Vec::<String>::new(), "{name}");
    if !matches!(step, Step::Puts(_) | Step::Call(Call::Promote)) {
        assert_eq!(unproved(&asked), Vec::<String>::new(), "{name}");
    }
    let verbs = asked.iter().filter(|command| command.0).map(|(_, words)| words[0].to_lowercase());
    let used = verbs.filter(|verb| WRITES.contains(&verb.to_uppercase().as_str())).collect();
    let once = redis.contents();
    assert_eq!(once == untouched, is_kept, "{name}");
    redis.send_again(&command);

    reconnected(&side.bench).await;
    settle(&*side.bench.store).await;
    let expected = hidden(found(world));
    assert_eq!(hidden(Found::of(&*side.bench.store).await), expected, "{name}");
    without_one_right(redis, &before, &act, &used, expected).await;
    files_of(&command[1]).collect()
}

/// Makes the call on a new store and expects a refusal for want of each command that it writes
/// with; then makes it with all rights and expects the model's result.
async fn without_one_right(
    redis: &mut Watched,
    before: &[Step],
    act: &Act,
    used: &BTreeSet<String>,
    expected: Found,
) {
    let mut side = Side::new(redis.bench.fresh().await);
    for (number, step) in before.iter().enumerate() {
        go(&mut side, number as u64, step).await;
    }
    let command = cut_off(redis, &mut side, before.len() as u64, act, !used.is_empty()).await;
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let tag = command[3].strip_suffix(":pool").map(str::to_owned);
    // Keys whose entries may be too early or may cause a needless read: see
    // scripts/shared/prelude.lua and scripts/set_topic.lua.
    let matters = |line: &String| {
        let key = line.split(' ').next().expect("a key");
        ![":bucket", ":version", ":changes"].iter().any(|end| key.ends_with(end))
    };
    let untouched = redis.contents();
    for verb in used {
        let name = format!("{act:?} without {verb}");
        redis.ask(&["ACL", "SETUSER", "default", &format!("-{verb}")]);
        let reply = redis.ask(&words);
        redis.ask(&["ACL", "SETUSER", "default", &format!("+{verb}")]);
        let errors = |reply: &Reply| matches!(reply, Reply::Error(_));
        assert!(errors(&reply) || reply.list().iter().any(errors), "{name}: {reply:?}");
        if let Some(tag) = &tag {
            assert!(format!("{reply:?}").contains("NOPERM"), "{name}: {reply:?}");
            let wrong = redis.ask(&["EVAL", INVARIANTS, "0", tag]);
            assert_eq!(wrong.texts(), Vec::<String>::new(), "{name}");
        }
        // A promote goes from set to set, and its writes to the first ones are right.
        if !matches!(act, Act::Step(Step::Call(Call::Promote))) {
            let left = |lines: &[String]| {
                lines.iter().filter(|line| matters(line)).cloned().collect::<Vec<_>>()
            };
            assert_eq!(left(&redis.contents()), left(&untouched), "{name}");
        }
    }
    redis.send_again(&command);
    reconnected(&side.bench).await;
    settle(&*side.bench.store).await;
    assert_eq!(hidden(Found::of(&*side.bench.store).await), expected, "{act:?} once it may");
}

async fn reconnected(bench: &Bench) {
    while bench.store.check().await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await; // it reconnects by itself
    }
}

/// Makes the call without the right to write, which must fail if the call would change something.
/// Returns the script call with its text.
async fn cut_off(
    redis: &mut Watched,
    side: &mut Side,
    number: u64,
    act: &Act,
    changes: bool,
) -> Vec<String> {
    // Redis gets the whole script, whose text identifies it.
    redis.ask(&["SCRIPT", "FLUSH"]);
    redis.asked();
    redis.may_write(false);
    let cut_off = AssertUnwindSafe(async {
        match act {
            Act::Step(step) => drop(go(side, number, step).await),
            Act::Limited(step) => limited(side, number, step).await,
        }
    });
    assert_eq!(cut_off.catch_unwind().await.is_err(), changes, "{act:?}: its caller is told");
    let asked = redis.asked();
    redis.may_write(true);
    // A new connection of the store sends other scripts meanwhile.
    let own = |command: &&Command| is_script(command) && files_of(&command.1[1]).next().is_some();
    asked.iter().rfind(own).expect("a script").1.clone()
}

/// Runs the scripts that only read, without the right to write. Returns their files.
async fn only_reads(redis: &mut Watched) -> Vec<String> {
    let bench = redis.bench.fresh().await;
    bench.put(job("a", "t")).await.expect("put");
    redis.ask(&["SCRIPT", "FLUSH"]);
    let untouched = redis.contents();
    redis.asked();
    redis.may_write(false);
    let (store, bucket, topic) =
        (&bench.store, bench.bucket(&id("a")), || "t".parse().expect("one"));
    store.held(bucket, topic(), None).await.expect("holders");
    peek_in(&**store, bucket, vec![topic()]).await.expect("a look");
    assert!(bench.get(&id("a")).await.is_some());
    let states = store.states(vec![(bucket, vec![id("a"), id("b")])]).await.remove(0);
    assert_eq!(states.expect("states"), [Some(State::Ready), None]);
    store.topics(bucket, TopicPage { limit: 9, ..TopicPage::default() }).await.expect("topics");
    store.topic(bucket, topic()).await.expect("a topic");
    store.topic_usage(topic()).await.expect("usage");
    store.usage().await.expect("usage");
    let range = JobRange { limit: 9, ..JobRange::default() };
    store.list(bucket, topic(), State::Ready, range).await.expect("a list");
    let steps = Steps { from: bench.now(), step: SECOND, count: 3 };
    store.due_counts(bucket, topic(), steps).await.expect("counts");
    redis.may_write(true);
    let asked = redis.asked();
    assert_eq!(redis.contents(), untouched);
    let texts = asked.iter().filter(|command| is_script(command)).map(|(_, words)| &words[1]);
    texts.flat_map(|text| files_of(text)).collect()
}

/// Runs the doctor's repairs twice. Returns the files of their scripts.
async fn mends_once(redis: &mut Watched) -> Vec<String> {
    let bench = redis.bench.fresh().await;
    for name in ["lost", "unnamed"] {
        bench.put(job(name, name)).await.expect("put");
    }
    let keys = redis.ask(&["KEYS", "*ready:lost"]).texts();
    let tag = keys[0].strip_suffix("ready:lost").expect("its tag").to_owned();
    redis.ask(&["DEL", &keys[0]]);
    redis.ask(&["ZREM", &format!("{tag}topics"), "unnamed"]);
    let prefix = tag.trim_start_matches('{').rsplit_once(':').expect("a tag").0;
    let prefix = prefix.rsplit_once(':').expect("a prefix").0.to_owned();
    let url = format!("redis://127.0.0.1:{}/", redis.port).parse().expect("a URL");
    let doctor = RedisOptions::new(url, &prefix);
    let options = || Options::new(None, bench.clock.clone());
    redis.ask(&["SCRIPT", "FLUSH"]);
    let untouched = redis.contents();
    redis.may_write(false);
    let cut_off = doctor.examine(options(), true).await;
    assert!(!cut_off.is_ok_and(|report| report.problems.is_empty()), "nothing can be mended");
    redis.may_write(true);
    assert_eq!(redis.contents(), untouched);
    redis.ask(&["SCRIPT", "FLUSH"]);
    redis.asked();
    let report = doctor.examine(options(), true).await.expect("mended");
    assert_eq!(report.problems, Vec::<String>::new(), "{}", report.text);
    let (asked, once) = (redis.asked(), redis.contents());
    assert_ne!(once, untouched);
    let commands = asked.iter().filter(|command| is_script(command)).map(|(_, words)| words);
    let mut files = Vec::new();
    for command in commands {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        // This includes calls by hash that failed before Redis knew the script: now they must do
        // nothing either.
        redis.ask(&words);
        files.extend(files_of(&command[1]));
    }
    assert_eq!(redis.contents(), once, "what is mended stays so");
    files
}

/// Asserts that a server without the right to write has no lease. Returns the files of the script
/// that would give it one.
async fn takes_no_lease(redis: &mut Watched) -> Vec<String> {
    let bench = redis.bench.fresh().await;
    let shared = bench.store.shared().expect("servers share this store");
    let untouched = redis.contents();
    redis.asked();
    redis.may_write(false);
    let _heard = shared.join().await.expect("the first call");
    let (asked, contents) = (redis.asked(), redis.contents());
    assert!(shared.servers().is_none() && !shared.is_alone());
    redis.may_write(true);
    assert_eq!(contents, untouched);
    bench.store.close().await;
    let texts = asked.iter().filter(|command| is_script(command)).map(|(_, words)| &words[1]);
    texts.flat_map(|text| files_of(text)).collect()
}

/// Asserts that a loss is accepted once, and in one step or not at all. Returns the files of its
/// scripts.
async fn accepts_a_loss_once(redis: &mut Watched) -> Vec<String> {
    let bench = redis.bench.fresh().await;
    bench.put(job("a", "accepted")).await.expect("put");
    let keys = redis.ask(&["KEYS", "*ready:accepted"]).texts();
    let tag = keys[0].strip_suffix("ready:accepted").expect("its tag");
    redis.ask(&["DEL", &format!("{tag}incarnation")]);
    redis.ask(&["SCRIPT", "FLUSH"]);
    let untouched = redis.contents();
    redis.may_write(false);
    bench.store.accept_loss().await.expect_err("it may not write");
    redis.may_write(true);
    assert_eq!(redis.contents(), untouched);
    reconnected(&bench).await;
    redis.asked();
    // A connection that is made anew may still have found that the right to write is missing.
    let mut accepted = bench.store.accept_loss().await;
    eventually!(
        {
            if accepted.is_err() {
                redis.asked();
                accepted = bench.store.accept_loss().await;
            }
            accepted.is_ok()
        },
        "the loss is never accepted: {accepted:?}"
    );
    assert!(accepted.expect("accepted") > 0);
    let (asked, once) = (redis.asked(), redis.contents());
    assert_ne!(once, untouched);
    let mut files = Vec::new();
    for (_, words) in asked.iter().filter(|command| is_script(command)) {
        redis.ask(&words.iter().map(String::as_str).collect::<Vec<_>>());
        files.extend(files_of(&words[1]));
    }
    assert_eq!(redis.contents(), once, "what was accepted stays so");
    files
}

/// A command that fails after a script's writes must not make the script deny them.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_missing_after_the_writes_denies_no_call() {
    let mut redis = Watched::new().await;
    let bench = redis.bench.fresh().await;
    for name in ["finished", "deleted"] {
        bench.put(job(name, "t")).await.expect("put");
    }
    let popped = bench.pop("t", 2).await;
    redis.ask(&["ACL", "SETUSER", "default", "-exists"]);
    let finished = bench.finish(&id("finished"), None).await;
    let deleted = bench.delete(&id("deleted")).await;
    redis.ask(&["ACL", "SETUSER", "default", "+exists"]);
    assert_eq!(popped.len(), 2);
    assert!(finished.is_ok() && deleted.is_ok(), "{finished:?} {deleted:?}");
    assert!(
        bench.get(&id("finished")).await.is_none() && bench.get(&id("deleted")).await.is_none()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_script_changes_the_state_once_or_not_at_all() {
    let mut redis = Watched::new().await;
    let mut covered = BTreeSet::new();
    let cases = cases();
    println!("{} cases", cases.len());
    let mut failed = 0;
    for (before, act) in cases {
        let case = AssertUnwindSafe(twice_and_cut_off(&mut redis, before, act)).catch_unwind();
        match case.await {
            Ok(files) => covered.extend(files),
            // The panic has printed the reason.
            Err(_) => failed += 1,
        }
    }
    assert_eq!(failed, 0, "cases failed");
    covered.extend(only_reads(&mut redis).await);
    covered.extend(mends_once(&mut redis).await);
    covered.extend(takes_no_lease(&mut redis).await);
    covered.extend(accepts_a_loss_once(&mut redis).await);
    let all: BTreeSet<String> = scripts().into_iter().map(|(name, _)| name).collect();
    println!("{} scripts", all.len());
    let missing: Vec<&String> = all.difference(&covered).collect();
    assert!(missing.is_empty(), "a script needs a case here: {missing:?}");
}
