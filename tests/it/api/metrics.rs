use reqwest::header::ACCEPT;
use tokio::time::timeout;

use crate::api::prelude::*;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

async fn scrape(server: &Server) -> String {
    let answer = server.get("/metrics").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.text
}

async fn until(server: &Server, holds: impl Fn(&str) -> bool) -> String {
    crate::prelude::until(async || scrape(server).await, |metrics| holds(metrics)).await
}

fn requests(route: &str, method: &str, status: u16) -> String {
    let labels = format!("route=\"{route}\",method=\"{method}\",status=\"{status}\"");
    format!("delay_queue_http_requests_total{{{labels}}}")
}

pub async fn requests_are_counted_by_route_method_and_status(server: Server) {
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    server.post("/v1/jobs", r#"{"topic":"t","id":"b"}"#).await.ok(201);
    server.post("/jobs", r#"{"topic":"t","id":"b"}"#).await.problem(409, "job_exists");
    server.call(Method::PUT, "/jobs", "").await.problem(405, "method_not_allowed");
    server.get("/jobs/none").await.problem(404, "job_not_found");
    server.get("/topics/a%22b%0A/pop").await.problem(422, "invalid_field");
    for unknown in ["/none", "/%22%0A", "/v1/none/of/it"] {
        server.get(unknown).await.problem(404, "route_not_found");
    }
    let odd = Method::from_bytes(b"ODD").expect("a method");
    server.call(odd, "/none", "").await.problem(404, "route_not_found");
    let metrics = scrape(&server).await;
    for (route, method, status, count) in [
        ("/jobs", "POST", 201, 2.0),
        ("/jobs", "POST", 409, 1.0),
        ("/jobs", "PUT", 405, 1.0),
        ("/jobs/{id}", "GET", 404, 1.0),
        ("/topics/{topic}/pop", "GET", 422, 1.0),
        ("unknown", "GET", 404, 3.0),
        ("unknown", "other", 404, 1.0),
    ] {
        let series = requests(route, method, status);
        assert_eq!(value_of(&metrics, &series), Some(count), "{series} in {metrics}");
    }
    let name = "delay_queue_http_request_duration_seconds";
    let timed = |end: &str| value_of(&metrics, &format!("{name}_{end}"));
    assert_eq!(timed("count{route=\"/jobs\",method=\"POST\"}"), Some(3.0), "{metrics}");
    for le in ["60.0", "+Inf"] {
        let bucket = timed(&format!("bucket{{le=\"{le}\",route=\"/jobs\",method=\"POST\"}}"));
        assert_eq!(bucket, Some(3.0), "{metrics}");
    }
}

pub async fn a_request_of_a_disconnected_client_is_counted(server: Server) {
    let pop = server.get("/topics/none/pop?wait=60s");
    let gone = timeout(Duration::from_millis(300), pop).await;
    gone.expect_err("the request waits"); // the timeout drops the request and closes its connection
    let series = requests("/topics/{topic}/pop", "GET", 499);
    let metrics = until(&server, |metrics| value_of(metrics, &series) == Some(1.0)).await;
    assert_eq!(value_of(&metrics, "delay_queue_waiting_pops"), Some(0.0));
}

pub async fn jobs_are_counted_by_topic_state_and_event(server: Server) {
    for (id, delay) in [("a", "0s"), ("b", "0s"), ("c", "0s"), ("d", "0s"), ("e", "1h")] {
        let put = json!({"topic": "t", "id": id, "delay": delay, "max_attempts": 3});
        server.put(put).await;
    }
    let popped = server.pop_all("t", 4).await;
    for (job, act) in popped.iter().zip(["finish", "release", "bury"]) {
        let (id, held) = (id_of(job), held(job));
        let done = server.act(id, act, &held).await;
        assert!(done.status.is_success(), "{done:?}");
    }
    let states = [("delayed", 1.0), ("ready", 1.0), ("reserved", 1.0), ("dead", 1.0)];
    let metrics = until(&server, |metrics| {
        states.iter().all(|(state, count)| {
            let series = format!("delay_queue_jobs{{topic=\"t\",state=\"{state}\"}}");
            value_of(metrics, &series) == Some(*count)
        })
    })
    .await;
    let events = [("put", 5.0), ("popped", 4.0), ("finished", 1.0), ("released", 1.0)];
    for (event, count) in events.into_iter().chain([("died", 1.0), ("timed_out", 0.0)]) {
        let series = format!("delay_queue_jobs_{event}_total{{topic=\"t\"}}");
        assert_eq!(value_of(&metrics, &series), Some(count), "{series} in {metrics}");
    }
    assert_eq!(value_of(&metrics, "delay_queue_job_lateness_seconds_count"), Some(4.0));
    assert_eq!(
        value_of(&metrics, "delay_queue_job_lateness_seconds_bucket{le=\"3600.0\"}"),
        Some(4.0)
    );
    assert_eq!(value_of(&metrics, "delay_queue_oldest_overdue_seconds{topic=\"t\"}"), Some(0.0));
    assert!(value_of(&metrics, "delay_queue_oldest_ready_seconds{topic=\"t\"}").is_some());
    let call =
        |name: &str| value_of(&metrics, &format!("delay_queue_store_call_{name}{{call=\"put\"}}"));
    assert_eq!((call("jobs_sum"), call("errors_total")), (Some(5.0), Some(0.0)), "{metrics}");
    assert!(call("duration_seconds_count").is_some_and(|calls| calls >= 1.0), "{metrics}");
    assert_eq!(value_of(&metrics, "delay_queue_store_state{state=\"ok\"}"), Some(1.0));
    assert!(
        value_of(&metrics, "delay_queue_timer_passes_total").is_some_and(|passes| passes > 0.0)
    );
}

pub async fn topics_beyond_the_limit_are_summed_up_without_losing_jobs(server: Server) {
    const TOPICS: usize = 450;
    let longest = "x".repeat(120);
    let jobs = |n: usize| json!({"topic": format!("{longest}-{n:04}"), "delay": "1h"});
    server.put_all((0..TOPICS).map(jobs)).await;
    server.post("/jobs", r#"{"topic":"other","delay":"1h"}"#).await.ok(201);
    let delayed = |metrics: &str| -> f64 {
        let lines = metrics.lines().filter(|line| line.starts_with("delay_queue_jobs{topic="));
        let delayed = lines.filter(|line| line.contains("state=\"delayed\""));
        delayed.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    };
    let metrics = until(&server, |metrics| delayed(metrics) == TOPICS as f64 + 1.0).await;
    let rest = |series: &str| value_of(&metrics, series);
    assert_eq!(rest("delay_queue_jobs{topic=\"other\",state=\"delayed\"}"), Some(51.0));
    assert_eq!(rest("delay_queue_jobs_put_total{topic=\"other\"}"), Some(51.0));
    assert_eq!(rest("delay_queue_topics"), Some(TOPICS as f64 + 1.0));
    let shown = metrics.lines().filter(|line| line.starts_with("delay_queue_jobs_put_total{"));
    assert_eq!(shown.count(), 401);
    assert!(metrics.len() < 1_100_000, "{} bytes", metrics.len());
}

pub async fn metrics_are_sent_in_the_requested_format(server: Server) {
    let ask = |accept: &'static str| {
        Server::send(server.request(Method::GET, "/metrics").header(ACCEPT, accept))
    };
    let open = ask("application/openmetrics-text;version=1.0.0,text/plain;q=0.5").await;
    assert_eq!(open.headers["content-type"], OPEN_METRICS);
    assert!(open.text.ends_with("# EOF\n"), "{}", open.text);
    assert!(open.text.contains("\n# TYPE delay_queue_clock_jumps counter\n"), "{}", open.text);
    for other in ["text/plain", "*/*"] {
        let plain = ask(other).await;
        assert_eq!(plain.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
        assert!(!plain.text.contains("# EOF"), "{}", plain.text);
        let line = "\n# TYPE delay_queue_clock_jumps_total counter\n";
        assert!(plain.text.contains(line), "{}", plain.text);
        assert!(plain.text.contains("\nprocess_resident_memory_bytes "), "{}", plain.text);
        let build =
            format!("\ndelay_queue_build_info{{version=\"{}\"}} 1\n", env!("CARGO_PKG_VERSION"));
        assert!(plain.text.contains(&build), "{}", plain.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_agree_on_jobs_and_count_their_own_requests() {
    let one = Server::on_redis().await;
    let other = one.beside().await;
    for n in 0..7 {
        one.put(json!({"topic": "t", "id": n.to_string(), "delay": "1h"})).await;
    }
    other.put(r#"{"topic":"t"}"#).await;
    let delayed = "delay_queue_jobs{topic=\"t\",state=\"delayed\"}";
    let ready = "delay_queue_jobs{topic=\"t\",state=\"ready\"}";
    for (server, puts) in [(&one, 7.0), (&other, 1.0)] {
        let metrics = until(server, |metrics| {
            (value_of(metrics, delayed), value_of(metrics, ready)) == (Some(7.0), Some(1.0))
                && value_of(metrics, "delay_queue_servers") == Some(2.0)
        })
        .await;
        assert_eq!(value_of(&metrics, &requests("/jobs", "POST", 201)), Some(puts));
        assert_eq!(value_of(&metrics, "delay_queue_jobs_put_total{topic=\"t\"}"), Some(puts));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_served_and_report_an_unavailable_store() {
    let mut redis = Redis::start();
    let server = Server::at(&redis).await;
    server.put(r#"{"topic":"t","delay":"1h"}"#).await;
    until(&server, |metrics| {
        value_of(metrics, "delay_queue_jobs{topic=\"t\",state=\"delayed\"}") == Some(1.0)
    })
    .await;
    redis.kill();
    let away = "delay_queue_store_state{state=\"unavailable\"}";
    let metrics = until(&server, |metrics| value_of(metrics, away) == Some(1.0)).await;
    assert_eq!(value_of(&metrics, "delay_queue_store_state{state=\"ok\"}"), Some(0.0));
    until(&server, |metrics| {
        let errors = value_of(metrics, "delay_queue_timer_errors_total");
        errors.is_some_and(|errors| errors > 0.0)
            && value_of(metrics, "delay_queue_buckets_unavailable") == Some(16.0)
    })
    .await;
    redis.resume();
    until(&server, |metrics| value_of(metrics, away) == Some(0.0)).await;
}
