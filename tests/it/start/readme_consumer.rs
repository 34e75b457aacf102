//! The consumer of the README, run unchanged except for the port and, in most tests, its work. It
//! uses the Python client, whose dependencies `tests/setup clients` installs.

use tokio::sync::mpsc;

use crate::start::docs::{README, blocks, root};
use crate::start::prelude::*;

/// Replacements in the README: the work prints the job's id, and then sleeps for the seconds in its
/// body; the worker does not wait for it at the end.
const SLEEP: &[(&str, &str)] = &[
    ("from delay_queue", "import time\nfrom delay_queue"),
    (
        "print(\"closing order\", job.body[\"order\"])",
        "print(job.id, flush=True); time.sleep(job.body)",
    ),
    ("concurrency=16", "concurrency=1, grace=0"),
];

/// A running consumer, which is killed at the end of its test.
struct Consumer {
    process: Killed,
    printed: mpsc::UnboundedReceiver<String>,
}

impl Consumer {
    /// Starts the consumer with these replacements in its text.
    fn start(server: &Process, replacements: &[(&str, &str)]) -> Self {
        let [text] = &blocks(README, "python")[..] else { panic!("one consumer") };
        let mut text = text.replace("http://127.0.0.1:9277", &server.base);
        for (old, new) in replacements {
            assert!(text.contains(old), "{old} is not in {text}");
            text = text.replace(old, new);
        }
        let mut python = Command::new("python3");
        let packages =
            ["clients/python/src", "target/clients-python"].map(|path| root().join(path));
        let packages = std::env::join_paths(packages).expect("paths without a colon");
        python.env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
        let started = python.args(["-c", &text]).stdout(Stdio::piped()).spawn();
        let mut process = started.expect("python3 runs");
        let (print, printed) = mpsc::unbounded_channel();
        let mut output = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        thread::spawn(move || {
            while let Some(Ok(line)) = output.next() {
                let _ = print.send(line);
            }
        });
        Self { process: Killed(process), printed }
    }

    /// Waits until the consumer has begun to work on this job.
    async fn works_on(&mut self, id: &str) {
        let printed = tokio::time::timeout(patience(), self.printed.recv()).await;
        assert_eq!(printed.ok().flatten().as_deref(), Some(id));
    }
}

async fn put_order(server: &Process, id: &str, body: Value, ttr: &str) {
    let job = json!({"topic": "orders", "id": id, "body": body, "ttr": ttr, "backoff": ["1h"]});
    server.put_job(job).await;
}

/// Waits until the job has this state. Returns the job. The state "gone" means that there is no
/// such job.
async fn wait_for_state(server: &Process, id: &str, state: &str) -> Value {
    let path = format!("/jobs/{id}");
    let is_so =
        |(status, job): &(u16, Value)| job["state"] == state || (*status == 404 && state == "gone");
    until(async || server.get(&path).await, is_so).await.1
}

#[tokio::test(flavor = "multi_thread")]
async fn the_consumer_of_the_readme_finishes_and_releases_jobs() {
    let (_place, server) = started("").await;
    put_order(&server, "good", json!({"order": 1}), "1m").await;
    put_order(&server, "bad", json!({}), "1m").await;
    let _consumer = Consumer::start(&server, &[]);
    wait_for_state(&server, "good", "gone").await;
    let bad = wait_for_state(&server, "bad", "delayed").await;
    assert_eq!((&bad["attempt"], &bad["error"]), (&json!(1), &json!("KeyError: 'order'")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_consumer_of_the_readme_survives_ends_of_server_and_ttr() {
    let dir = WorkDir::new();
    let port = free_port();
    let mut server = Process::start_on_port(port, dir.path(), &[]).await;
    let mut consumer = Consumer::start(&server, SLEEP);
    // The work takes longer than the TTR, so the consumer touches the job.
    put_order(&server, "slow", json!(12.0), "9s").await;
    consumer.works_on("slow").await;
    wait_for_state(&server, "slow", "gone").await;
    let (_, topic) = server.get("/topics/orders").await;
    assert_eq!(topic["since_start"]["timed_out"], 0, "{topic}");
    // The job is deleted meanwhile, so the consumer's touch and finish are refused. The consumer
    // continues.
    put_order(&server, "cancelled", json!(5.0), "1s").await;
    consumer.works_on("cancelled").await;
    assert_eq!(server.delete("/jobs/cancelled").await, Some(200));
    // The server is killed and restarted during the work.
    put_order(&server, "across", json!(2.0), "1h").await;
    consumer.works_on("across").await;
    server.kill();
    let server = Process::start_on_port(port, dir.path(), &[]).await;
    wait_for_state(&server, "across", "gone").await;
    // At SIGTERM, the consumer releases a job that it has no time to finish.
    put_order(&server, "held", json!(3600), "1h").await;
    consumer.works_on("held").await;
    assert_eq!(consumer.process.end_by("-TERM"), Some(0));
    wait_for_state(&server, "held", "ready").await;
}
