//! `delay-queue work`: commands that fail, bury and snooze their jobs, a server that is killed
//! meanwhile, a lost reservation, and a stop.

use crate::start::prelude::*;
use crate::support::shifted_clock::millis;

/// Starts a worker that runs a script of bash for each job.
fn start(shell: &Shell, options: &[&str], script: &str) -> Killed {
    let command = ["--", "bash", "-c", script];
    let mut command = shell.command(&[&["work", "--topic", "t"], options, &command].concat());
    let log = fs::File::create(shell.place.path().join("worker.log")).expect("a file");
    command.stdout(Stdio::null()).stderr(log);
    Killed(command.spawn().expect("the program runs"))
}

fn count(file: &Path) -> usize {
    fs::read_to_string(file).unwrap_or_default().lines().count()
}

/// The command of the jobs of the test below: notes two commands of one job at the same time.
const SCRIPT: &str = r#"
read -r body
id=$DELAY_QUEUE_JOB_ID
mkdir "running-$id" || echo "$id" >> twice
echo "$id" >> started
sleep 0.05
rmdir "running-$id"
if [ "$body" = '{"n":7}' ]; then echo "no shop" >&2; exit 65; fi
if [ ! -e "again-$id" ]; then
    touch "again-$id"
    case $body in
        *3}) echo "no connection" >&2; exit 1 ;;
        *8}) exit 75 ;;
        *9}) kill -KILL $$ ;;
    esac
fi
echo "$body"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn each_job_is_finished_or_dead_although_the_server_is_killed() {
    let port = free_port();
    let shell = Shell::new(&format!("http://127.0.0.1:{port}"));
    let place = &shell.place;
    let mut server = Process::start_on_port(port, place.path(), &[]).await;
    let job = |n: u32| json!({"topic": "t", "id": n.to_string(), "body": {"n": n}, "finished_retention": "1h"});
    let jobs: Vec<Value> = (0..50).map(job).collect();
    server.post_ok("/batch/jobs", json!({"jobs": jobs})).await;
    let mut worker = start(&shell, &["--concurrency", "4", "--result"], SCRIPT);
    let (started, log) = (place.path().join("started"), place.path().join("worker.log"));
    eventually_blocking!(count(&started) >= 10, "no job started: {:?}", fs::read_to_string(&log));
    server.kill();
    let has_logged = |word: &str| fs::read_to_string(&log).is_ok_and(|said| said.contains(word));
    eventually_blocking!(has_logged("failed to reach"), "the worker does not report the failure");
    let server = Process::start_on_port(port, place.path(), &[]).await;
    let counts = || shell.one(&["topic", "t"]);
    let is_done = || counts()["finished"] == 49 && counts()["dead"] == 1;
    eventually_blocking!(is_done(), "{}: {:?}", counts(), fs::read_to_string(&log));
    assert_eq!(worker.end_by("-TERM"), Some(0));
    assert_eq!(count(&place.path().join("twice")), 0, "a job ran twice at the same time");
    let said = fs::read_to_string(&log).expect("text");
    assert_eq!(said.matches("waiting until it answers").count(), 1, "{said}");
    assert!(said.contains("the server answers again"), "{said}");

    assert_eq!(server.get("/jobs/7").await.1["error"], "no shop");
    let failed = server.get("/jobs/13").await.1;
    assert_eq!((&failed["result"], &failed["attempt"]), (&json!({"n": 13}), &json!(2)));
    assert_eq!(failed["history"][0]["error"], "no connection");
    let killed = server.get("/jobs/19").await.1;
    assert_eq!(killed["history"][0]["error"], "the command was killed by signal 9");
    let snoozed = server.get("/jobs/18").await.1;
    assert_eq!(snoozed["attempt"], 1, "the release was counted: {snoozed}");
}

#[test]
fn a_stop_gives_running_jobs_back_uncounted() {
    let (_server, shell) = Shell::served("");
    shell.one(&["put", "t", "--id", "a"]);
    let started = shell.place.path().join("started");
    let mut worker = start(&shell, &["--grace", "100ms"], "echo > started; sleep 1000");
    eventually_blocking!(count(&started) == 1, "the job does not start");
    assert_eq!(worker.end_by("-TERM"), Some(0));
    let job = shell.one(&["get", "a"]);
    assert_eq!((&job["state"], &job["attempt"]), (&json!("ready"), &json!(0)), "{job}");
    // A second worker ends within its grace, because its command does.
    let mut worker = start(&shell, &[], "echo >> started; sleep 0.2");
    eventually_blocking!(count(&started) == 2, "the job does not start again");
    assert_eq!(worker.end_by("-TERM"), Some(0));
    shell.fails(&["get", "a"], 1, &["job_not_found"]);
}

#[test]
fn a_job_that_is_too_early_waits_before_it_runs_again() {
    let (_server, shell) = Shell::served("");
    for (id, options, backoff, least) in
        [("none", &[][..], "1h", 1), ("given", &["--snooze", "5m"][..], "1h", 300)]
    {
        shell.one(&["put", "t", "--id", id, "--backoff", backoff]);
        let mut worker = start(&shell, options, "exit 75");
        eventually_blocking!(shell.one(&["get", id])["state"] == "delayed", "it is not released");
        let job = shell.one(&["get", id]);
        assert_eq!(job["attempt"], 0, "{job}");
        assert_eq!(worker.end_by("-TERM"), Some(0));
        let wait = millis(&job["due_at"]) - millis(&job["history"][0]["ended_at"]);
        assert!((least * 1_000..least * 1_000 + 900).contains(&wait), "{id}: {wait} ms: {job}");
        shell.one(&["delete", id]);
    }
}

#[test]
fn a_lost_reservation_ends_the_command() {
    let (_server, shell) = Shell::served("");
    shell.one(&["put", "t", "--id", "a", "--ttr", "1s"]);
    let script = "trap 'echo > ended; exit 1' TERM; echo > started; sleep 1000 & wait";
    let _worker = start(&shell, &[], script);
    let noted = |name: &str| count(&shell.place.path().join(name));
    eventually_blocking!(noted("started") == 1, "the job does not start");
    shell.one(&["delete", "a"]);
    eventually_blocking!(noted("ended") == 1, "the command still runs");
}

#[test]
fn a_job_whose_command_runs_is_not_started_again() {
    let (_server, shell) = Shell::served("");
    shell.one(&["put", "t", "--id", "a"]);
    // The command does not obey SIGTERM, so that it still runs when the job is popped again.
    let script = "trap '' TERM; mkdir running || echo >> twice; echo >> started; \
                  while [ ! -e enough ]; do sleep 0.05; done; rmdir running";
    let _worker = start(&shell, &["--concurrency", "2", "--grace", "1m"], script);
    let noted = |name: &str| count(&shell.place.path().join(name));
    eventually_blocking!(noted("started") == 1, "the job does not start");
    // An operator releases the job by its id alone, and the worker pops it again.
    shell.one(&["release", "a", "--delay", "0"]);
    let attempts = || shell.one(&["get", "a"])["history"].as_array().map_or(0, Vec::len);
    eventually_blocking!(attempts() >= 2, "the worker does not pop the job again");
    shell.place.file("enough", "");
    eventually_blocking!(noted("started") == 2, "the job does not start after its first command");
    assert_eq!(noted("twice"), 0, "the command ran twice at the same time");
}

#[test]
fn a_worker_without_a_command_or_a_right_is_refused() {
    let root = secret();
    let (_server, shell) = Shell::served(&(bootstrap(&root) + "insecure = false\n"));
    let work = ["work", "--topic", "t", "--"];
    for command in ["no-such-command", "./no-such-command", "/etc/passwd"] {
        let output = shell.run(&[&work[..], &[command]].concat());
        fails(&output, 2, &["failed to find the command", command]);
    }
    assert_eq!(shell.run(&work[..3]).status.code(), Some(2));
    let create = ["token", "create", "--token", &root, "--name", "root", "--scope", "admin"];
    assert!(shell.run(&create).status.success());
    shell.fails(&[&work[..], &["true"]].concat(), 5, &["401 unauthenticated"]);
}
