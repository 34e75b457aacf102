//! `delay-queue bench`: figures, error messages, and the removal of its jobs.

use crate::start::prelude::*;

/// Runs a bench to its end. Returns whether it succeeded, its JSON, and its standard error.
fn bench(dir: &Path, arguments: &[&str]) -> (bool, Value, String) {
    let output = output(dir, &[&["bench", "--json"], arguments].concat());
    let said = text(&output.stderr);
    assert!(!said.contains("panicked"), "{said}");
    (output.status.success(), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

async fn topics(server: &Process) -> Vec<Value> {
    server.get("/topics").await.1["topics"].as_array().expect("topics").clone()
}

async fn waiting(server: &Process) -> u64 {
    let topics = topics(server).await;
    let counts = topics.iter().flat_map(|topic| [&topic["delayed"], &topic["ready"]]);
    counts.filter_map(Value::as_u64).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_phase_has_figures_and_no_job_is_left() {
    let (dir, server) = started("").await;
    let spans = ["--late-jobs", "50", "--window", "1s", "--flow-time", "10s"];
    for (batch, number, ids) in [("1", "1", "own"), ("7", "3", "made")] {
        let arguments = ["--url", &server.base, "--jobs", "500", "--batch", batch];
        let more = ["--topics", number, "--pending", "100", "--ids", ids];
        let arguments = [&arguments[..], &more, &spans].concat();
        let (succeeded, report, said) = bench(dir.path(), &arguments);
        assert!(succeeded, "{said}");
        let figures = report["figures"].as_array().expect("figures");
        let of = |phase: &str| {
            let found = figures.iter().find(|f| f["peer"] == "delay-queue" && f["phase"] == phase);
            found.unwrap_or_else(|| panic!("the report has no phase {phase}: {report}"))
        };
        for (phase, jobs) in [("put", 500), ("pop", 500), ("lateness", 50)] {
            let figures = of(phase);
            assert_eq!(figures["jobs"], jobs, "{figures}");
            assert!(figures["jobs_per_second"].as_f64().is_some_and(|rate| rate > 0.0));
            let spread =
                ["p50_ms", "p99_ms", "p99_9_ms", "max_ms"].map(|name| figures[name].as_f64());
            assert!(spread.is_sorted() && spread[0] > Some(0.0), "{figures}");
        }
        assert_eq!(report["ids"], ids);
        for phase in ["flow", "lateness"] {
            let arrivals = of(phase);
            for wrong in ["early", "lost", "doubled"] {
                assert_eq!(arrivals[wrong], 0, "{wrong}: {arrivals}");
            }
        }
        let flow = of("flow");
        for figure in ["jobs", "jobs_per_second", "puts_per_second", "p50_ms"] {
            assert!(flow[figure].as_f64().is_some_and(|value| value > 0.0), "{figure}: {flow}");
        }
        assert_eq!(topics(&server).await, [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_report_has_a_line_per_phase() {
    let (dir, server) = started("").await;
    let arguments = ["bench", "--url", &server.base, "--jobs", "200", "--phases", "put,pop,flow"];
    let arguments = [&arguments[..], &["--flow-time", "3s"]].concat();
    // The report states the cost of the generator.
    let said = dir.assert_succeeds(&arguments, &["µs of CPU per job"]);
    for phase in ["put", "pop", "flow"] {
        let is_of = |line: &&str| line.contains("delay-queue ") && line.contains(phase);
        let line = said.lines().find(is_of).unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains("jobs/s") && line.contains("p99.9"), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bench_reports_a_missing_server_and_a_wrong_address() {
    let dir = WorkDir::new();
    let nothing = format!("http://127.0.0.1:{}", free_port());
    for (url, words) in [
        (nothing.as_str(), "failed to connect to 127.0.0.1"),
        ("ftp://127.0.0.1:9277", "--url must be http:// or https://"),
        ("http://", "--url must be http:// or https://"),
        ("http://no.such.host.invalid:1", "failed to resolve the address"),
    ] {
        let (succeeded, _, said) = bench(dir.path(), &["--url", url, "--jobs", "10"]);
        assert!(!succeeded && said.contains(words), "{url}: {said}");
    }
    for (arguments, words) in [
        (["--phases", "push"], "possible values: put, pop, flow, lateness"),
        (["--window", "soon"], "must be a duration"),
        (["--ids", "theirs"], "possible values: own, made"),
        (["--due-in", "5"], "lacks a unit"),
        (["--rate", "0"], "0 is not in 1..=1000000"),
        (["--flow-time", "2s"], "--flow-time must be at least 3s, 2 s more than --due-in"),
        (["--phases", "put,flow"], "--phases must have a pop between put and flow"),
        (["--batch", "101"], "101 is not in 1..=100"),
        (["--jobs", "0"], "0 is not in 1.."),
    ] {
        let (succeeded, _, said) = bench(dir.path(), &arguments);
        assert!(!succeeded && said.contains(words), "{arguments:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_tls_and_tokens_is_measured() {
    let (place, root) = (WorkDir::new(), secret());
    let admin = place.file("root", &root);
    let Https { authority: ours, server, .. } = &Https::start_in(&place, &bootstrap(&root));
    let other = Authority::new(&place, "other");
    let url = server.base.replace("http://", "https://");
    let run = |what: &[&str], token: &str, ca: &str| {
        let asked = ["--url", &url, "--token-file", token, "--ca-file", ca];
        place.run("", &[], &[what, &asked].concat())
    };
    run(&["token", "create", "--name", "root", "--scope", "admin"], &admin, &ours.file);
    let create = ["token", "create", "--name", "load"];
    let scopes = ["--scope", "put=*", "--scope", "pop=*", "--scope", "manage=*"];
    let made = run(&[create.as_slice(), &scopes].concat(), &admin, &ours.file);
    let load = place.file("load", text(&made.stdout).trim());

    let bench = ["bench", "--json", "--jobs", "50", "--phases", "put,pop"];
    let measured = run(&bench, &load, &ours.file);
    assert!(measured.status.success(), "{}", text(&measured.stderr));
    let report: Value = serde_json::from_slice(&measured.stdout).expect("JSON");
    assert_eq!(report["figures"][1]["jobs"], 50, "{report}");

    one_line(&run(&bench, &load, &other.file), &["failed to connect to 127.0.0.1", "certificate"]);
    let refused = run(&bench, &admin, &ours.file);
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("403"), "{said}");
    assert!(!said.contains(&root), "{said}");
}

/// Waits until a topic has `count` jobs. Returns a page of them.
async fn jobs_put(server: &Process, count: usize) -> Vec<Value> {
    loop {
        for topic in topics(server).await {
            let name = topic["topic"].as_str().expect("the topic's name");
            let path = format!("/topics/{name}/jobs?state=delayed&limit=1000");
            let page = server.get(&path).await.1;
            let jobs = page["jobs"].as_array().cloned().unwrap_or_default();
            if jobs.len() >= count {
                return jobs;
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await; // no event reports it
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn own_ids_scatter_and_differ_from_run_to_run() {
    let (dir, server) = started("").await;
    let mut seen = HashSet::new();
    for batch in ["1", "10"] {
        let arguments = ["bench", "--url", &server.base, "--jobs", "50", "--phases", "put,pop"];
        let more = ["--batch", batch, "--due-in", "5s"];
        let mut command = program(dir.path(), &[&arguments[..], &more].concat());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program runs");
        let jobs = jobs_put(&server, 50).await;
        let ids: Vec<String> =
            jobs.iter().map(|job| job["id"].as_str().expect("an id").to_owned()).collect();
        let runs: HashSet<&str> = ids.iter().map(|id| &id[..15]).collect();
        assert_eq!(runs.len(), 1, "the ids of one run have different run numbers: {ids:?}");
        assert!(ids.iter().all(|id| id.starts_with("order-") && id.len() == 25), "{ids:?}");
        let first_digits: HashSet<&str> = ids.iter().map(|id| &id[15..16]).collect();
        assert_eq!(first_digits.len(), 10, "the ids are not spread over all numbers: {ids:?}");
        assert!(ids.into_iter().all(|id| seen.insert(id)), "two jobs have the same id");
        assert!(child.wait().expect("the program ends").success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pops_begin_when_the_last_put_is_due_and_take_all() {
    let (dir, server) = started("").await;
    for (due_in, seconds) in [("0s", 0.0), ("2s", 2.0)] {
        let arguments = ["--jobs", "300", "--phases", "put,pop", "--due-in", due_in];
        let arguments = [&["--url", &server.base], &arguments[..]].concat();
        let (succeeded, report, said) = bench(dir.path(), &arguments);
        assert!(succeeded, "{said}");
        let (put, pop) = (&report["figures"][0], &report["figures"][1]);
        assert_eq!((&pop["phase"], &pop["jobs"]), (&"pop".into(), &300.into()));
        let [put_began, put_for, pop_began] =
            [&put["began"], &put["seconds"], &pop["began"]].map(|v| v.as_f64().expect("a time"));
        let between = pop_began - (put_began + put_for);
        assert!(between > seconds - 0.1, "the pops began {between} s after the puts: {report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limits_the_puts_of_a_flow() {
    let (dir, server) = started("").await;
    let arguments = ["--phases", "flow", "--flow-time", "3s", "--rate", "50"];
    let arguments = [&["--url", &server.base], &arguments[..]].concat();
    let (succeeded, report, said) = bench(dir.path(), &arguments);
    assert!(succeeded, "{said}");
    // Each producer may exceed the rate by at most one job.
    let jobs = report["figures"][0]["jobs"].as_u64().expect("a number");
    assert!((1..=150 + 16).contains(&jobs), "{report}");
    assert_eq!(report["rate"], 50);
    assert_eq!(topics(&server).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_answer_ends_a_bench_with_the_figures_so_far() {
    let (dir, server) = started("").await;
    let arguments = ["--url", &server.base, "--jobs", "10", "--body", "300000", "--phases", "put"];
    let (succeeded, report, said) = bench(dir.path(), &arguments);
    assert!(!succeeded && said.contains("413") && said.contains("limits.max_body_bytes"), "{said}");
    assert!(report["error"].as_str().is_some_and(|error| error.contains("413")), "{report}");
    assert_eq!(report["figures"][0]["jobs"], 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_a_bench_with_figures_and_a_purge() {
    let (dir, server) = started("").await;
    let endless = ["--jobs", "100000000", "--phases", "put", "--connections", "2"];
    let arguments = [&["bench", "--json", "--url", &server.base], &endless[..]].concat();
    let mut command = program(dir.path(), &arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the program runs");
    // Each of the 2 connections has one put in progress, so with 3 jobs the first put has been
    // answered.
    eventually!(waiting(&server).await >= 3, "the bench puts no jobs");
    send_signal(child.id(), "-INT");
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("interrupted"), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(report["figures"][0]["jobs"].as_u64().is_some_and(|jobs| jobs > 0), "{report}");
    assert_eq!(topics(&server).await, [""; 0]);
}
