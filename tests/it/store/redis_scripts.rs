//! Every script of the Redis store is called twice, as after a lost reply, and is cut off before
//! its first write. Afterwards the state must be the model's before the call or after exactly one
//! call.
//!
//! To cut a script off, the test denies all writing commands: Redis then ends the script at its
//! first write. MONITOR shows the commands of a complete call. After its first write, a script may
//! use only keys that it has read before, so that no key of another type can end the script between
//! two writes.

use std::panic::AssertUnwindSafe;

use delay_queue::store::Location as _;
use delay_queue::{
    job::{Job, ScheduleName},
    store::{Fired, Firing, NewSchedule, ScheduleChange, ScheduleChanged, StoredSchedule},
};
use futures::FutureExt as _;

use crate::store::calls::ReleaseRules;
use crate::store::prelude::*;
use crate::store::redis_only::ConnectedBench;
use crate::store::workload::{creation, finish, pass, pop, put, restore, revocation};

/// A call that the test makes twice and cuts off.
#[derive(Debug, Clone)]
enum TestedCall {
    Step(Step),
    /// The step, made by a caller with access to only some topics.
    Limited(Step),
}

/// Returns the cases: preparing steps, and the calls that are tested after them.
fn cases() -> Vec<(Vec<Step>, TestedCall)> {
    use ReservationChoice::{ById, Last};
    let one = || Step::Puts(vec![put(0, "t0", 0)]);
    let held = || vec![one(), pop(0)];
    let dead = || vec![one(), pop(0), Step::Bury(0, Last)];
    let again =
        |on_conflict| Step::Puts(vec![NewJob { on_conflict, body: "1".into(), ..put(0, "t0", 5) }]);
    let long_put = |delay| NewJob { body: long('a'), ..put(0, "t0", delay) };
    let last_put = with(put(1, "t1", 3), |policy| policy.max_attempts = 1);
    let two = || Step::Puts(vec![long_put(0), last_put.clone()]);
    let retention = Millis::new(100 * STEP);
    // The body of the first job is long, and so is the result of the second.
    let held_kept =
        || vec![Step::Puts(vec![kept(long_put(0), retention), put(1, "t0", 5)]), pop(0)];
    let finished = || [held_kept(), vec![finish(0, Some(5_000))]].concat();
    let finished_after = |steps| {
        let put = Step::Puts(vec![kept(put(0, "t0", 0), retention)]);
        vec![put, pop(0), finish(0, None), pass(steps)]
    };
    let release = || released(0, Last, Some(5 * STEP));
    // Two jobs with a priority, an expiry, and a long body.
    let expiring = |delay: u64| {
        let rules = |policy: &mut Policy| {
            policy.priority = Priority::MAX;
            policy.expires_after = Some(Millis::new(60 * STEP));
        };
        vec![Step::Puts(vec![with(long_put(delay), rules), with(put(1, "t0", delay), rules)])]
    };
    // The jobs expire, have one attempt, and move to another topic when they die.
    let moving = || {
        let rules = |policy: &mut Policy| {
            (policy.max_attempts, policy.dead_to) = (1, Some(topic("t1")));
            policy.expires_after = Some(Millis::new(60 * STEP));
        };
        vec![Step::Puts(vec![with(long_put(0), rules), with(put(1, "t0", 5), rules)])]
    };
    let moving_held = || [moving(), vec![pop(0)]].concat();
    let moved = || [moving_held(), vec![Step::Bury(0, Last)]].concat();
    let expiring_held = || [expiring(0), vec![pop(0)]].concat();
    let expired = || [expiring(0), vec![pass(70), Step::Promote]].concat();
    let snooze = |delay| {
        let (delay, body) = (Some(delay * STEP), Some(5_000));
        Step::Release(0, Last, ReleaseRules { delay, is_uncounted: true, body })
    };
    let kick_dead = || Step::KickDead(0, 9);
    let kick_matching = |state, filter| Step::KickMatching { topic: 0, state, filter, limit: 9 };
    let purge_matching = |state, filter| Step::PurgeMatching { topic: 0, state, filter, limit: 9 };
    let fields = changing(|policy| policy.ttr = Some(Millis::new(40 * STEP)));
    let schedule = Some(Schedule::In(Millis::new(9 * STEP)));
    let change = Change { schedule, body: Some(long('b')), ..fields };
    let no_expiry = changing(|policy| policy.expires_after = Some(None));
    let lowest = changing(|policy| policy.priority = Some(Priority::MIN));
    let delete = || Step::Delete(0, None, None);
    let remember = |only| Step::Delete(0, only, Some(50 * STEP));
    let [keep, replace] = [OnConflict::Keep, OnConflict::Replace].map(again);

    // Each call is the only one after its preparation.
    let calls: Vec<(Vec<Step>, Vec<Step>)> = vec![
        (vec![], vec![two(), expiring(5).remove(0), creation("alice")]),
        (vec![], vec![restore(3, 0, State::Reserved, 2), restore(3, 0, State::Finished, 2)]),
        (vec![], vec![Step::Pause(0, true), Step::PauseFor(0, 5 * STEP)]),
        (vec![], vec![Step::Defaults(0, Some(7_000))]),
        (vec![one()], vec![keep, replace.clone(), pop(0), Step::Reschedule(0, Box::new(change))]),
        (vec![two()], vec![pop(0), delete(), Step::Delete(0, Some(15), None)]),
        (vec![two()], vec![remember(Some(15))]),
        (vec![two(), pop(0)], vec![finish(0, None)]),
        (vec![two(), pass(4)], vec![Step::Promote]),
        (vec![two(), pop(0), pass(40)], vec![Step::Promote]),
        (vec![two(), pass(4), Step::Promote, pop(1), pass(40)], vec![Step::Promote]),
        (held(), vec![Step::Unpop(0), finish(0, None), release(), released(0, ById, None)]),
        (held(), vec![Step::Touch(0, Last, Some(50 * STEP))]),
        (held(), vec![Step::Bury(0, Last), Step::Bury(0, ById)]),
        (held_kept(), vec![finish(0, None), finish(0, Some(20)), finish(0, Some(5_000))]),
        (held_kept(), vec![remember(None)]),
        ([held_kept(), vec![pass(40), Step::Promote]].concat(), vec![finish(0, Some(20))]),
        (finished(), vec![finish(0, Some(20)), delete(), remember(None), replace]),
        (finished(), vec![Step::Purge(0, State::Finished, 9), purge_matching(State::Finished, 5)]),
        (finished_after(300), vec![Step::Promote]),
        (expiring(0), vec![delete(), remember(None), Step::Purge(0, State::Ready, 9)]),
        (expiring(5), vec![kick_matching(State::Delayed, 3)]),
        (expiring(5), vec![Step::Reschedule(0, Box::new(no_expiry))]),
        (expiring(5), vec![Step::Reschedule(0, Box::new(lowest))]),
        ([expiring(0), vec![pass(70)]].concat(), vec![pop(0), Step::Promote]),
        ([expiring(5), vec![pass(70)]].concat(), vec![Step::Promote]),
        (expiring_held(), vec![pop(0), finish(0, None), Step::Bury(0, Last)]),
        (expiring_held(), vec![Step::Unpop(0), release()]),
        (expiring_held(), vec![snooze(0), snooze(90)]),
        ([expiring_held(), vec![snooze(0), pop(0), pop(0)]].concat(), vec![release()]),
        ([expiring_held(), vec![pass(40)]].concat(), vec![Step::Promote]),
        (expired(), vec![Step::Kick(0), kick_dead(), finish(0, None)]),
        (expired(), vec![kick_matching(State::Dead, 2), purge_matching(State::Dead, 2)]),
        (moving_held(), vec![Step::Bury(0, Last), release()]),
        ([moving_held(), vec![pass(40)]].concat(), vec![Step::Promote]),
        ([moving(), vec![pass(70)]].concat(), vec![Step::Promote, pop(0)]),
        (moved(), vec![pop(1), delete()]),
        ([moved(), vec![pop(1)]].concat(), vec![Step::Unpop(0)]),
        (dead(), vec![Step::Kick(0), kick_dead(), Step::Purge(0, State::Dead, 9)]),
        ([dead(), vec![pass(300)]].concat(), vec![Step::Promote]),
        (vec![Step::Pause(0, true)], vec![Step::Pause(0, false)]),
        (vec![Step::PauseFor(0, 5 * STEP), pass(6)], vec![Step::EndPause(0)]),
        (vec![creation("alice")], vec![Step::Used("alice", 5), revocation("alice")]),
    ];
    let each = |(before, calls): (Vec<Step>, Vec<Step>)| {
        calls.into_iter().map(move |step| (before.clone(), TestedCall::Step(step)))
    };
    let limited = [(held(), finish(0, None)), (vec![one()], delete())];
    let limited = limited.map(|(before, step)| (before, TestedCall::Limited(step)));
    calls.into_iter().flat_map(each).chain(limited).collect()
}

/// A Redis with MONITOR, which shows all its commands.
struct WatchedRedis {
    connected: ConnectedBench,
    monitor: Connection,
    markers: u64,
}

/// Whether a script called a command, and the words of the command. Each character of a word stands
/// for one byte.
type Command = (bool, Vec<String>);

impl WatchedRedis {
    async fn new() -> Self {
        let connected = ConnectedBench::new().await;
        let port = connected.bench.redis_server().port();
        let mut monitor = Connection::to(port).expect("a Redis that runs");
        monitor.ask(&["MONITOR"]).expect("an answer");
        Self { connected, monitor, markers: 0 }
    }

    async fn fresh(&self) -> Bench {
        self.connected.bench.fresh().await
    }

    fn ask(&mut self, words: &[&str]) -> Reply {
        self.connected.ask(words)
    }

    /// Returns the commands that Redis has received since the last call.
    fn received_commands(&mut self) -> Vec<Command> {
        self.markers += 1;
        let marker = format!("mark {}", self.markers);
        self.ask(&["ECHO", &marker]);
        let mut commands = Vec::new();
        loop {
            let line = self.monitor.next().expect("a line");
            let command = parse_command(line.text());
            if command.1.get(1) == Some(&marker) {
                return commands;
            }
            commands.push(command);
        }
    }

    /// Sets whether clients may write.
    fn may_write(&mut self, may: bool) {
        self.set_rights(if may { "+@all" } else { "-@write" });
    }

    fn set_rights(&mut self, rule: &str) {
        self.connected.set_rights(&[rule]);
    }

    /// Does the work without the right to write, and checks that it changes nothing. Returns its
    /// result, and the commands that Redis has received.
    async fn without_writes<T>(&mut self, work: impl Future<Output = T>) -> (T, Vec<Command>) {
        // After the flush, Redis receives the whole text of each script, which identifies it.
        self.ask(&["SCRIPT", "FLUSH"]);
        let untouched = self.contents();
        self.received_commands();
        self.may_write(false);
        let result = work.await;
        let (commands, contents) = (self.received_commands(), self.contents());
        self.may_write(true);
        assert_eq!(contents, untouched, "a call has written before it failed");
        (result, commands)
    }

    /// Calls the scripts among these commands again, which must change nothing. Returns their
    /// files. This includes calls by hash that failed before Redis had the script.
    fn repeat(&mut self, commands: &[Command]) -> Vec<String> {
        let once = self.contents();
        let mut files = Vec::new();
        for (_, words) in commands.iter().filter(|command| is_script(command)) {
            self.ask_again(words);
            files.extend(files_of(&words[1]));
        }
        assert_eq!(self.contents(), once, "a repeated call has changed the store");
        files
    }

    fn contents(&mut self) -> Vec<String> {
        self.connected.contents()
    }

    fn ask_again(&mut self, command: &[String]) -> Reply {
        let words: Vec<Vec<u8>> = command.iter().map(|word| bytes_of(word)).collect();
        self.connected.ask(&words)
    }

    /// Sends a command again, with the same arguments.
    fn send_again(&mut self, command: &[String]) {
        let reply = self.ask_again(command);
        assert!(!is_error(&reply) && !reply.list().iter().any(is_error), "{reply:?}");
    }
}

fn is_error(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(_))
}

fn parse_command(line: &str) -> Command {
    let (head, rest) = line.split_once("] ").expect("the client's address");
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
        words.push(word.into_iter().map(char::from).collect());
        letters.next(); // the blank between
    }
    (head.ends_with("lua"), words)
}

/// Returns the bytes of a word of a command.
fn bytes_of(word: &str) -> Vec<u8> {
    word.chars().map(|byte| u8::try_from(byte).expect("a byte")).collect()
}

fn is_script(command: &Command) -> bool {
    !command.0 && ["EVAL", "EVALSHA"].contains(&command.1[0].as_str())
}

const WRITES: [&str; 9] =
    ["ZADD", "ZREM", "ZREMRANGEBYRANK", "HSET", "HDEL", "SET", "DEL", "HINCRBY", "INCR"];

/// Returns commands that use a set of a topic, a bucket's set or the long bodies for the first time
/// after a write. If such a key had another type, the script would end between two writes. Other
/// keys are safe: without its pool and attempts a bucket has no jobs, and scripts write the names
/// of topics with `pcall`.
fn unchecked_keys(commands: &[Command]) -> Vec<String> {
    let (mut seen, mut has_written, mut unchecked) = (BTreeSet::new(), false, Vec::new());
    for (_, words) in commands.iter().filter(|(by_script, _)| *by_script) {
        let verb = words[0].to_uppercase();
        let Some(key) = words.get(1).filter(|key| key.contains("}:")) else { continue };
        let kind = key.split("}:").nth(1).unwrap_or_default();
        let matters = matches!(kind, "bucket" | "ends" | "bodies") || kind.contains(':');
        if has_written && matters && verb != "EXISTS" && !seen.contains(key) {
            unchecked.push(format!("{verb} {kind}"));
        }
        // The member or field '' never exists, so such a command only checks the key's type.
        let is_probe = words.last().is_some_and(String::is_empty);
        has_written |= WRITES.contains(&verb.as_str()) && !is_probe;
        seen.insert(key.clone());
    }
    unchecked
}

/// Returns the keys that a script uses although its call does not declare them. Leaves out sets of
/// topics, which callers do not know in advance, and histories, whose errors scripts ignore.
fn undeclared_keys(commands: &[Command]) -> Vec<String> {
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

/// Returns the files whose text a script includes.
fn files_of(script: &str) -> impl Iterator<Item = String> {
    let text = String::from_utf8(bytes_of(script)).expect("a script");
    let all = scripts().into_iter();
    all.filter(move |(_, own)| own_parts(own).iter().all(|part| text.contains(part)))
        .map(|(name, _)| name)
}

/// Returns the parts of a file between the lines that include other files.
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

async fn run_limited_step(tested: &mut StoreUnderTest, number: u64, step: &Step) {
    tested.advance_to_call(number);
    let bucket = tested.bench.bucket(&id("job:0"));
    let topics = Topics::new(vec!["t*".parse().expect("a pattern")]);
    match step {
        Step::Finish(..) => {
            let reservation = Some(tested.given[0].1);
            let job = JobRef { id: id("job:0"), reservation, topics };
            tested.bench.call::<verb::Finish>(bucket, vec![finishing(job)]).await;
        }
        Step::Delete(..) => {
            let target = Target { id: id("job:0"), topics };
            let delete = Delete { job: target, states: None, remember: None };
            tested.bench.call::<verb::Delete>(bucket, vec![delete]).await;
        }
        other => unreachable!("no limited {other:?}"),
    }
}

/// Replaces all reservations, which are random, by the same value.
fn without_reservations(mut found: Found) -> Found {
    for job in found.jobs.values_mut() {
        *job = Job { reservation: job.reservation.map(|_| Reservation::NONE), ..job.clone() };
    }
    found
}

/// Runs one case. Returns the files of the scripts that it has covered.
async fn check_repeated_and_cut_off(
    redis: &mut WatchedRedis,
    before: Vec<Step>,
    call: TestedCall,
) -> Vec<String> {
    let name: String = format!("{call:?}").chars().take(100).collect();
    let name = format!("{name} after {} steps", before.len());
    let (TestedCall::Step(step) | TestedCall::Limited(step)) = &call;
    let worlds = World::all(&[before.clone(), vec![step.clone()]].concat());
    let mut tested = StoreUnderTest::new(redis.fresh().await);
    for (number, step) in before.iter().enumerate() {
        run_step(&mut tested, number as u64, step).await;
    }
    let untouched = redis.contents();
    let [.., last, world] = &worlds[..] else { unreachable!("two worlds at least") };
    let found = |world: &World| world.found(world.now(), Reservation::from_bits);
    let is_repeated = matches!(step, Step::Finish(..)) && found(last) == found(world);
    let is_kept = is_repeated || world.answer().contains("Kept");
    let command = cut_off(redis, &mut tested, before.len() as u64, &call, !is_kept).await;
    redis.send_again(&command);
    // Puts and promotes need no check: a put removes the jobs that it has created if it fails at
    // such a key, and a promote checks each set before it writes there.
    let commands = redis.received_commands();
    assert_eq!(undeclared_keys(&commands), [""; 0], "{name}");
    if !matches!(step, Step::Puts(_) | Step::Promote) {
        assert_eq!(unchecked_keys(&commands), [""; 0], "{name}");
    }
    let verbs =
        commands.iter().filter(|command| command.0).map(|(_, words)| words[0].to_lowercase());
    let used = verbs.filter(|verb| WRITES.contains(&verb.to_uppercase().as_str())).collect();
    let once = redis.contents();
    assert_eq!(once == untouched, is_kept, "{name}");
    redis.send_again(&command);

    let expected = without_reservations(found(world));
    assert_eq!(found_in(&tested.bench).await, expected, "{name}");
    check_without_each_right(redis, &before, &call, &used, expected).await;
    files_of(&command[1]).collect()
}

/// Makes the call on a new store once for each writing command that it needs, without the right to
/// this command. Each time expects a refusal. Then makes the call with all rights, and expects the
/// model's result.
async fn check_without_each_right(
    redis: &mut WatchedRedis,
    before: &[Step],
    call: &TestedCall,
    used: &BTreeSet<String>,
    expected: Found,
) {
    let mut tested = StoreUnderTest::new(redis.fresh().await);
    for (number, step) in before.iter().enumerate() {
        run_step(&mut tested, number as u64, step).await;
    }
    let command = cut_off(redis, &mut tested, before.len() as u64, call, !used.is_empty()).await;
    let tag = command[3].strip_suffix(":pool").map(str::to_owned);
    // The other keys may change: their entries may be too early or cause a needless read. See
    // scripts/shared/basics.lua and scripts/set_topic.lua.
    let matters = |line: &String| {
        let key = line.split(' ').next().expect("a key");
        ![":bucket", ":ends", ":version", ":changes"].iter().any(|end| key.ends_with(end))
    };
    let mut untouched = redis.contents();
    untouched.retain(&matters);
    for verb in used {
        let name = format!("{call:?} without {verb}");
        redis.set_rights(&format!("-{verb}"));
        let reply = redis.ask_again(&command);
        redis.set_rights(&format!("+{verb}"));
        assert!(is_error(&reply) || reply.list().iter().any(is_error), "{name}: {reply:?}");
        if let Some(tag) = &tag {
            assert!(format!("{reply:?}").contains("NOPERM"), "{name}: {reply:?}");
            let wrong = redis.ask(&["EVAL", INVARIANTS, "0", tag]);
            assert_eq!(wrong.texts(), [""; 0], "{name}");
        }
        // A promote completes one set after another, so its writes to the first sets are correct.
        if !matches!(call, TestedCall::Step(Step::Promote)) {
            let mut left = redis.contents();
            left.retain(&matters);
            assert_eq!(left, untouched, "{name}");
        }
    }
    redis.send_again(&command);
    assert_eq!(found_in(&tested.bench).await, expected, "{call:?} with all rights");
}

/// Returns the contents of a store after all due jobs are promoted.
async fn found_in(bench: &Bench) -> Found {
    reconnect(bench).await;
    settle(&*bench.store).await;
    without_reservations(Found::of(&*bench.store).await)
}

async fn reconnect(bench: &Bench) {
    while bench.store.check().await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await; // the store reconnects by itself
    }
}

/// Makes the call without the right to write. The call must fail if it would change something.
/// Returns the command that calls the script, with the script's text.
async fn cut_off(
    redis: &mut WatchedRedis,
    tested: &mut StoreUnderTest,
    number: u64,
    call: &TestedCall,
    changes: bool,
) -> Vec<String> {
    let step = AssertUnwindSafe(async {
        match call {
            TestedCall::Step(step) => drop(run_step(tested, number, step).await),
            TestedCall::Limited(step) => run_limited_step(tested, number, step).await,
        }
    });
    let (answer, commands) = redis.without_writes(step.catch_unwind()).await;
    assert_eq!(answer.is_err(), changes, "does {call:?} fail without the right to write?");
    // Meanwhile, a new connection of the store may send other scripts.
    let own = |command: &&Command| is_script(command) && files_of(&command.1[1]).next().is_some();
    commands.iter().rfind(own).expect("a script").1.clone()
}

/// Checks that scripts that only read need no right to write. Returns their files.
async fn check_reading_scripts(redis: &mut WatchedRedis) -> Vec<String> {
    let bench = redis.fresh().await;
    bench.put(job("a", "t")).await.expect("put");
    let reads = async {
        let (store, bucket, state) = (&bench.store, bench.bucket(&id("a")), State::Ready);
        store.held(bucket, topic("t"), None).await.expect("holders");
        peek_in(&**store, bucket, vec![topic("t")]).await.expect("a look");
        assert!(bench.get(&id("a")).await.is_some());
        assert_eq!(bench.bury(&id("a"), None).await, Err(Refusal::NeverPopped));
        let states = store.states(vec![(bucket, vec![id("a"), id("b")])]).await.remove(0);
        assert_eq!(states.expect("states"), [Some(state), None]);
        bench.counts("t").await;
        bench.topics().await;
        store.topic_usage(topic("t")).await.expect("usage");
        store.usage().await.expect("usage");
        bench.list(bucket, "t", state, JobRange { limit: 9, ..JobRange::default() }).await;
        let filter = JobFilter { id_contains: Some("a".to_owned()), ..JobFilter::default() };
        let counted = Selection { topic: topic("t"), state, filter, after: None, limit: 9 };
        store.count_matching(bucket, counted).await.expect("a count");
        let steps = Steps { from: bench.now(), step: SECOND, count: 3 };
        store.due_counts(bucket, topic("t"), steps).await.expect("counts");
    };
    redis.ask(&["SCRIPT", "FLUSH"]);
    redis.received_commands();
    let shared = bench.store.shared().expect("a shared store");
    eventually!(
        {
            shared.walk().await;
            !redis.ask(&["KEYS", "*:walked"]).texts().is_empty()
        },
        "the walk does not end"
    );
    let walked = redis.received_commands();
    let ((), commands) = redis.without_writes(reads).await;
    [redis.repeat(&walked), redis.repeat(&commands)].concat()
}

/// Checks that a second repair by the doctor changes nothing. Returns the files of its scripts.
async fn check_repairs(redis: &mut WatchedRedis) -> Vec<String> {
    let bench = redis.fresh().await;
    for name in ["lost", "unnamed"] {
        bench.put(job(name, name)).await.expect("put");
    }
    let keys = redis.ask(&["KEYS", "*ready:lost"]).texts();
    let tag = keys[0].strip_suffix("ready:lost").expect("the bucket's tag").to_owned();
    redis.ask(&["DEL", &keys[0]]);
    redis.ask(&["ZREM", &format!("{tag}topics"), "unnamed"]);
    let prefix = &bench.layout.prefix;
    let doctor = redis_options(&bench.redis_server().url(), prefix);
    let options = || Options::new(None, bench.clock.clone());
    redis.ask(&["ZADD", &format!("{{{prefix}:schedules}}:names"), "0", "gone"]);
    let (cut_off, _) = redis.without_writes(doctor.examine(options(), true, deadline_of)).await;
    let is_complete = cut_off.is_ok_and(|report| report.problems.is_empty());
    assert!(!is_complete, "the repair succeeded without the right to write");
    let untouched = redis.contents();
    redis.ask(&["SCRIPT", "FLUSH"]);
    redis.received_commands();
    let report = doctor.examine(options(), true, deadline_of).await.expect("mended");
    assert_eq!(report.problems, [""; 0], "{}", report.text);
    let commands = redis.received_commands();
    assert_ne!(redis.contents(), untouched);
    redis.repeat(&commands)
}

/// Checks that a change and a firing of a schedule are made completely or not at all, and that a
/// repeated one changes nothing. Returns the files of their scripts.
async fn check_schedules(redis: &mut WatchedRedis) -> Vec<String> {
    let bench = redis.fresh().await;
    let new = |text: &str| NewSchedule { text: text.to_owned(), next_at: Some(bench.now()) };
    let name = || "s".parse::<ScheduleName>().expect("a name");
    let change = || vec![ScheduleChange { name: name(), old: None, new: Some(new("one")) }];
    let fire = || {
        let schedule = StoredSchedule { name: name(), text: "one".to_owned() };
        let firing = Firing { schedule, new: new("two"), job: job("s:1", "t") };
        bench.store.call_in::<verb::Fire>(bench.bucket(&id("s:1")), vec![firing])
    };
    let (refused, _) = redis.without_writes(bench.store.change_schedules(change())).await;
    refused.expect_err("the user has no right to write");
    reconnect(&bench).await;
    redis.received_commands();
    let changed = bench.store.change_schedules(change()).await.expect("changed");
    assert_eq!(changed, [ScheduleChanged::Done]);
    let (mut commands, created) = (redis.received_commands(), redis.contents());
    for withdrawn in ["-zadd", "-zrem", "-hset"] {
        redis.set_rights(withdrawn);
        for next_at in [None, Some(bench.now())] {
            let new = Some(NewSchedule { text: "two".to_owned(), next_at });
            let change = ScheduleChange { name: name(), old: Some("one".to_owned()), new };
            let refused = bench.store.change_schedules(vec![change]).await;
            refused.expect_err("the user lacks a right");
        }
        redis.may_write(true);
        assert_eq!(redis.contents(), created, "{withdrawn}");
        reconnect(&bench).await;
    }
    redis.without_writes(fire()).await.0.expect_err("the user has no right to write");
    reconnect(&bench).await;
    redis.ask(&["SCRIPT", "FLUSH"]);
    redis.received_commands();
    let fired = fire().await.expect("fired");
    assert!(matches!(fired[..], [Ok(Fired::Placed(_))]), "{fired:?}");
    let due = bench.store.due_schedules(1).await.expect("due schedules");
    assert_eq!(due.due.len(), 1);
    commands.extend(redis.received_commands());
    redis.repeat(&commands)
}

/// Checks that a server without the right to write gets no lease. Returns the files of the script
/// that writes leases.
async fn check_refused_lease(redis: &mut WatchedRedis) -> Vec<String> {
    let bench = redis.fresh().await;
    let shared = bench.store.shared().expect("servers share this store");
    let join = async {
        let heard = shared.join().await.expect("the first call");
        assert!(shared.servers().is_none() && !shared.is_alone());
        heard
    };
    let (_heard, commands) = redis.without_writes(join).await;
    bench.store.close().await;
    let scripts = commands.iter().filter(|command| is_script(command));
    scripts.flat_map(|(_, words)| files_of(&words[1])).collect()
}

/// Checks that a loss is accepted once, either completely or not at all. Returns the files of its
/// scripts.
async fn check_accepted_loss(redis: &mut WatchedRedis) -> Vec<String> {
    let bench = redis.fresh().await;
    bench.put(job("a", "accepted")).await.expect("put");
    let keys = redis.ask(&["KEYS", "*ready:accepted"]).texts();
    let tag = keys[0].strip_suffix("ready:accepted").expect("the bucket's tag");
    redis.ask(&["DEL", &format!("{tag}incarnation")]);
    let untouched = redis.contents();
    let (refused, _) = redis.without_writes(bench.store.accept_loss()).await;
    refused.expect_err("the user has no right to write");
    reconnect(&bench).await;
    redis.received_commands();
    // A new connection may have found the right to write missing shortly before.
    let mut accepted = bench.store.accept_loss().await;
    eventually!(
        {
            if accepted.is_err() {
                redis.received_commands();
                accepted = bench.store.accept_loss().await;
            }
            accepted.is_ok()
        },
        "the loss was not accepted: {accepted:?}"
    );
    assert!(accepted.expect("accepted") > 0);
    let commands = redis.received_commands();
    assert_ne!(redis.contents(), untouched);
    redis.repeat(&commands)
}

/// If a command fails after the writes of a script, the script must not claim that nothing was
/// applied.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_missing_after_the_writes_denies_no_call() {
    let mut redis = WatchedRedis::new().await;
    let bench = redis.fresh().await;
    for name in ["finished", "deleted"] {
        bench.put(job(name, "t")).await.expect("put");
    }
    let popped = bench.pop("t", 2).await;
    redis.set_rights("-exists");
    let finished = bench.finish(&id("finished"), None).await;
    let deleted = bench.delete(&id("deleted")).await;
    redis.set_rights("+exists");
    assert_eq!(popped.len(), 2);
    assert!(finished.is_ok() && deleted.is_ok(), "{finished:?} {deleted:?}");
    assert_eq!(bench.records().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_script_changes_the_state_once_or_not_at_all() {
    let mut redis = WatchedRedis::new().await;
    let mut covered = BTreeSet::new();
    let cases = cases();
    println!("{} cases", cases.len());
    let mut failed = 0;
    for (before, call) in cases {
        let case =
            AssertUnwindSafe(check_repeated_and_cut_off(&mut redis, before, call)).catch_unwind();
        match case.await {
            Ok(files) => covered.extend(files),
            // The panic has already printed the reason.
            Err(_) => failed += 1,
        }
    }
    assert_eq!(failed, 0, "{failed} cases failed; see above");
    covered.extend(check_reading_scripts(&mut redis).await);
    covered.extend(check_repairs(&mut redis).await);
    covered.extend(check_schedules(&mut redis).await);
    covered.extend(check_refused_lease(&mut redis).await);
    covered.extend(check_accepted_loss(&mut redis).await);
    let all: BTreeSet<String> = scripts().into_iter().map(|(name, _)| name).collect();
    println!("{} scripts", all.len());
    let missing: Vec<&String> = all.difference(&covered).collect();
    assert!(missing.is_empty(), "a script needs a case here: {missing:?}");
}
