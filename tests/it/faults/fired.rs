//! Schedules that fire each second while servers are killed: no instant is missing, and none is put
//! twice.

use tokio::time::sleep;

use crate::faults::prelude::*;

const SCHEDULES: usize = 50;
const SPAN: Duration = Duration::from_secs(8);
/// Time between two kills.
const PERIOD: Duration = Duration::from_secs(2);

struct Fleet {
    store: String,
    ports: Vec<u16>,
    servers: Vec<Process>,
    dir: TempDir,
}

impl Fleet {
    async fn start(store: String, count: usize) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let ports: Vec<u16> = (0..count).map(|_| free_port()).collect();
        let mut fleet = Self { store, ports, servers: Vec::new(), dir };
        for number in 0..count {
            let server = fleet.server(number).await;
            fleet.servers.push(server);
        }
        fleet
    }

    async fn server(&self, number: usize) -> Process {
        let (port, arguments) = (self.ports[number], ["--store", &*self.store]);
        Process::start_on_port(port, self.dir.path(), &arguments).await
    }

    /// Kills a server and starts it again.
    async fn replace(&mut self, number: usize) {
        self.servers[number].kill();
        self.servers[number] = self.server(number).await;
    }
}

/// Pops and finishes all ready jobs, and counts each id.
async fn drain(server: &Process, seen: &mut HashMap<String, Vec<String>>) -> Option<usize> {
    let url = format!("{}/topics/t/pop?count=100", server.base);
    let answer = crate::support::http::get(url).await.ok()?.json::<Value>().await.ok()?;
    let jobs = answer["jobs"].as_array()?;
    let text = |job: &Value, field: &str| job[field].as_str().unwrap_or_default().to_owned();
    for job in jobs {
        seen.entry(text(job, "id")).or_default().push(text(job, "created_at"));
    }
    let hold = |job: &Value| json!({ "id": job["id"], "reservation": job["reservation"] });
    let finish = json!({ "jobs": jobs.iter().map(hold).collect::<Vec<_>>() });
    let count = jobs.len();
    if count > 0 {
        // A finish whose answer is lost is repeated after the TTR, as another delivery of the same
        // put, which has the same time of creation.
        let _ = server.post("/batch/finish", finish).await;
    }
    Some(count)
}

async fn no_instant_is_missing_or_doubled(store: String, servers: usize) {
    let mut fleet = Fleet::start(store, servers).await;
    for number in 0..SCHEDULES {
        let body =
            json!({ "topic": "t", "every": "1s", "missed": "all", "ttr": "1s", "max_attempts": 0 });
        assert_eq!(fleet.servers[0].put(&format!("/schedules/s-{number}"), body).await, Some(201));
    }
    let mut firsts = Vec::new();
    for number in 0..SCHEDULES {
        let shown = fleet.servers[0].get(&format!("/schedules/s-{number}")).await.1;
        firsts.push(shown["next"][0].as_str().map(str::to_owned).expect("an instant"));
    }
    let (began, mut seen, mut kills, mut last_kill) =
        (Instant::now(), HashMap::new(), 0, Instant::now());
    while began.elapsed() < SPAN {
        if last_kill.elapsed() >= PERIOD {
            fleet.replace(kills % servers).await;
            (kills, last_kill) = (kills + 1, Instant::now());
        }
        if drain(&fleet.servers[kills % servers], &mut seen).await.unwrap_or(0) == 0 {
            sleep(Duration::from_millis(20)).await; // no event reports jobs of the next instant
        }
    }
    // What was put before the pause is drained; a paused schedule puts nothing more.
    let mut ends = Vec::new();
    for number in 0..SCHEDULES {
        let path = format!("/schedules/s-{number}/pause");
        let pause = async || fleet.servers[0].post(&path, json!({})).await;
        let paused = until(pause, |answer| matches!(answer, Some((200, _)))).await;
        ends.push(paused.expect("an answer").1["last"]["id"].clone());
    }
    let drained = async || {
        drain(&fleet.servers[0], &mut seen).await;
        fleet.servers[0].get("/topics/t").await.1
    };
    let is_empty =
        |topic: &Value| ["delayed", "ready", "reserved"].iter().all(|state| topic[state] == 0);
    until(drained, is_empty).await;
    let (mut instants, mut missing, mut doubled) = (0, Vec::new(), Vec::new());
    for (number, end) in ends.iter().enumerate() {
        let end: i64 = instant_of(end.as_str().expect("an id"));
        let first: Timestamp = firsts[number].parse().expect("a time");
        // The schedule may have fired between its creation and the GET.
        let mut at = first.as_millisecond();
        while at <= end {
            let id = format!("s-{number}:{at}");
            match seen.get(&id) {
                None => missing.push(id),
                Some(puts) if puts.iter().any(|put| put != &puts[0]) => doubled.push(id),
                Some(_) => {}
            }
            (at, instants) = (at + 1_000, instants + 1);
        }
    }
    assert!(kills > 0, "no server was killed");
    assert_eq!((missing, doubled), (vec![], vec![]));
    let least = SCHEDULES as u64 * (SPAN.as_secs() - 1);
    assert!(instants >= least, "{instants} instants, at least {least} passed");
}

fn instant_of(id: &str) -> i64 {
    id.rsplit(':').next().and_then(|text| text.parse().ok()).expect("an instant")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_instant_is_put_once_while_servers_on_redis_die() {
    let redis = Redis::start();
    no_instant_is_missing_or_doubled(redis.url(), 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_instant_is_put_once_while_servers_on_a_cluster_die() {
    let cluster = Cluster::steady();
    no_instant_is_missing_or_doubled(cluster.url(), 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_instant_is_put_once_while_a_server_on_files_dies() {
    no_instant_is_missing_or_doubled("file:./data".to_owned(), 1).await;
}
