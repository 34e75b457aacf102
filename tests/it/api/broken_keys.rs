//! Keys of a wrong type, and scores that are no times. An operator could write them with redis-cli.

use self::Unaffected::{Everything, OtherBuckets, OtherTopics};
use crate::api::prelude::*;

/// Number of jobs of each kind. Each of the 16 buckets has some of them.
const JOBS: usize = 96;

enum Backend {
    One(Redis),
    Cluster(Arc<Cluster>, String),
}

enum Unaffected {
    Everything,
    /// All jobs except those of the damaged bucket.
    OtherBuckets,
    /// All jobs except those of this topic in the damaged bucket.
    OtherTopics(&'static str),
}

/// Commands that damage one bucket, with `T` for its tag, and the jobs that must still be
/// delivered.
type Attack = (&'static [&'static str], Unaffected);

const ATTACKS: [Attack; 14] = [
    (&["SET T:ready:waited x"], Everything),
    (&["SET T:delayed:odd x", "ZADD T:bucket 1 delayed:odd"], Everything),
    (&["SET T:ready:due x"], OtherTopics("due")),
    (&["DEL T:bucket", "SET T:bucket x"], OtherBuckets),
    (&["DEL T:ends", "SET T:ends x"], OtherBuckets),
    (&["ZADD T:ends 1 delayed:due 1 odd", "ZADD T:bucket 1 reserved:due"], Everything),
    (&["ZADD T:bucket 1.5 delayed:odd"], Everything),
    (&["ZADD T:bucket -inf delayed:due"], Everything),
    (&["ZADD T:bucket -inf odd"], Everything),
    (&["ZADD T:bucket 1e300 delayed:odd"], Everything),
    (&["DEL T:pool", "SET T:pool x"], OtherBuckets),
    (&["DEL T:attempts", "SET T:attempts x"], OtherBuckets),
    (&["DEL T:topics", "SET T:topics x"], Everything),
    (&["DEL T:incarnation", "RPUSH T:incarnation x"], OtherBuckets),
];

impl Backend {
    fn port(&self, tag: &str) -> u16 {
        match self {
            Self::One(redis) => redis.port(),
            Self::Cluster(cluster, _) => {
                let slot = cluster.slot_of(tag);
                cluster.port(cluster.master_of(slot).expect("all nodes name the same master"))
            }
        }
    }

    fn ask(&self, tag: &str, line: &str) -> Reply {
        let words: Vec<String> = line.split(' ').map(|word| word.replace('T', tag)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // The first word is not replaced, since names of commands may contain the letter `T` too.
        let verb = line.split(' ').next().expect("a verb");
        ask(self.port(tag), &[&[verb], &words[1..]].concat()).expect("an answer")
    }

    async fn server(&self) -> Server {
        Server::with(|settings| match self {
            Self::One(redis) => settings.store.url = Secret(redis.url()),
            Self::Cluster(cluster, prefix) => {
                settings.store.url = Secret(cluster.url());
                settings.store.prefix.clone_from(prefix);
            }
        })
        .await
    }

    /// Returns the tag of the first bucket, which every store has.
    fn tag(&self) -> String {
        let (prefix, ports) = match self {
            Self::One(redis) => ("dq", vec![redis.port()]),
            Self::Cluster(cluster, prefix) => (prefix.as_str(), cluster.masters()),
        };
        let pattern = format!("{{{prefix}:*}}:incarnation");
        let keys = ports
            .into_iter()
            .flat_map(|port| ask(port, &["KEYS", &pattern]).expect("an answer").texts());
        let first = keys.min().expect("a bucket");
        first.trim_end_matches(":incarnation").to_owned()
    }
}

fn count_commands(redis: &Redis) -> u64 {
    let info = ask(redis.port(), &["INFO", "stats"]).expect("an answer");
    let line = info.text().lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.expect("a count").trim().parse().expect("a number")
}

/// Puts jobs that fall due or whose TTRs end in a second, makes the attack, and pops all jobs that
/// must be delivered.
async fn assert_survives(backend: &Backend, (commands, unaffected): &Attack) {
    let name = commands.join(", ");
    let server = Arc::new(backend.server().await);
    let waiting = tokio::spawn({
        let server = Arc::clone(&server);
        async move { server.get("/topics/waited/pop?wait=60s").await }
    });
    let put = |topic: &str, delay: &str| {
        let job =
            |n| json!({"topic": topic, "id": format!("{topic}:{n}"), "delay": delay, "ttr": "2s"});
        json!({"jobs": (0..JOBS).map(job).collect::<Vec<_>>()}).to_string()
    };
    server.post("/batch/jobs", put("held", "0s")).await.ok(200);
    let mut held = 0;
    while held < JOBS {
        held += server.pop("held/pop?count=100&wait=5s").await.len();
    }
    server.post("/batch/jobs", put("due", "2s")).await.ok(200);
    let tag = backend.tag();
    let inside: BTreeSet<String> = backend.ask(&tag, "HKEYS T:pool").texts().into_iter().collect();
    assert!(inside.len() > 2, "{name}: the bucket has too few jobs");
    for command in *commands {
        let reply = backend.ask(&tag, command);
        assert!(!matches!(reply, Reply::Error(_)), "{command}: {reply:?}");
    }
    let wanted = |id: &String| match unaffected {
        Everything => true,
        OtherBuckets => !inside.contains(id),
        OtherTopics(topic) => !inside.contains(id) || !id.starts_with(topic),
    };
    let mut missing: BTreeSet<String> = ["due", "held"]
        .into_iter()
        .flat_map(|topic| (0..JOBS).map(move |n| format!("{topic}:{n}")))
        .filter(wanted)
        .collect();
    let begin = Instant::now();
    while !missing.is_empty() {
        assert!(begin.elapsed() < patience(), "{name}: {missing:?} are not delivered");
        let answer = server.get("/topics/due,held/pop?count=100&wait=1s&ttr=1h").await;
        if answer.status == 200 {
            for job in answer.jobs() {
                missing.remove(id_of(&job));
            }
        } else {
            pass(Duration::from_millis(50)).await; // calls on the broken bucket are refused
        }
    }
    if let Backend::One(redis) = backend {
        let before = count_commands(redis);
        pass(Duration::from_secs(1)).await; // counts commands during this time
        let count = count_commands(redis) - before;
        assert!(count < 2_000, "{name}: {count} commands in an idle second");
    }
    waiting.abort();
}

/// Runs four attacks at the same time, since each waits for deadlines most of the time.
async fn assert_all_survive(backend: impl Fn() -> Backend) {
    for some in ATTACKS.chunks(4) {
        let homes: Vec<Backend> = some.iter().map(|_| backend()).collect();
        join_all(homes.iter().zip(some).map(|(backend, attack)| assert_survives(backend, attack)))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_key_or_score_stops_no_other_bucket_or_topic() {
    assert_all_survive(|| Backend::One(Redis::start())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_key_stops_no_other_topic_of_a_cluster() {
    assert_all_survive(|| Backend::Cluster(shared::cluster(), shared::prefix())).await;
}
