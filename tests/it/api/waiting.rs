//! Pops that wait for jobs.

use crate::api::prelude::*;
use crate::support::events::close;

pub async fn a_waiting_pop_is_answered_by_a_put(server: Server) {
    let server = Arc::new(server);
    let waiting = server.begin_pop("t/pop?wait=30s");
    server.until_pops_wait(1).await;
    let put_at = Stopwatch::start();
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    assert_eq!(waiting.await.expect("joined")[0]["id"], "a");
    assert!(
        put_at.elapsed() < scaled(Duration::from_secs(15)),
        "the pop waited for {:?} although a job was put",
        put_at.elapsed()
    );
}

pub async fn an_ended_wait_is_answered_without_jobs(server: Server) {
    let begin = Instant::now();
    assert!(server.pop("t/pop?wait=300ms").await.is_empty());
    assert!(begin.elapsed() >= Duration::from_millis(300));
    assert!(server.pop("t/pop").await.is_empty());
}

pub async fn a_pop_of_many_topics_makes_one_call_a_server(server: Server) {
    let topics: Vec<String> = (0..100).map(|number| format!("t{number}")).collect();
    for topic in &topics {
        server.put(json!({"topic": topic, "id": topic})).await;
    }
    let calls = async || {
        let series = "delay_queue_store_call_jobs_count{call=\"pop\"}";
        server.metric(series).await.unwrap_or_default()
    };
    let before = calls().await;
    let jobs = server.pop(&format!("{}/pop?count=99", topics.join(","))).await;
    let made = calls().await - before;
    // A cluster has three servers, which answer one after another.
    assert!(made <= 3.0, "{made} calls");
    let mut popped: Vec<&str> = jobs.iter().filter_map(|job| job["topic"].as_str()).collect();
    let mut first = topics[..99].to_vec();
    popped.sort_unstable();
    first.sort_unstable();
    assert_eq!(popped, first);
    assert_eq!(server.pop_one("t99").await["id"], "t99");
}

pub async fn earlier_topics_come_first(server: Server) {
    for count in [2, 1] {
        // The order of topics comes before the priority of jobs.
        server.put(r#"{"topic":"low","id":"l","priority":9}"#).await;
        server.put(r#"{"topic":"high","id":"h","priority":0}"#).await;
        let mut ids = Vec::new();
        while ids.len() < 2 {
            let jobs = server.pop(&format!("none,high,low/pop?count={count}")).await;
            assert_eq!(jobs.len(), count);
            ids.extend(jobs.into_iter().map(|job| job["id"].clone()));
        }
        assert_eq!(ids, ["h", "l"]);
        for id in ["h", "l"] {
            server.act(id, "finish", "").await.is_done();
        }
    }
    let server = Arc::new(server);
    let waiting = server.begin_pop("high,low/pop?wait=10s");
    server.until_pops_wait(1).await;
    server.put(r#"{"topic":"low","id":"l2"}"#).await;
    assert_eq!(waiting.await.expect("joined")[0]["id"], "l2");
}

pub async fn a_hundred_waiting_pops_share_a_thousand_jobs(server: Server) {
    const JOBS: usize = 1000;
    let server = Arc::new(server);
    let mut consumers = JoinSet::new();
    for _ in 0..100 {
        let server = Arc::clone(&server);
        consumers.spawn(async move {
            let mut mine: Vec<String> = Vec::new();
            loop {
                let jobs = server.pop("t/pop?wait=10s").await;
                if jobs.is_empty() {
                    return mine;
                }
                mine.extend(jobs.iter().map(|job| id_of(job).to_owned()));
            }
        });
    }
    for _ in 0..10 {
        let job = |n| json!({"topic": "t", "delay": f64::from(n) / 1000.0});
        server.put_all((0..100).map(job)).await;
    }
    let popped: Vec<String> = consumers.join_all().await.into_iter().flatten().collect();
    assert_eq!(popped.len(), JOBS);
    assert_eq!(popped.iter().collect::<HashSet<_>>().len(), JOBS, "a job was delivered twice");
}

/// Sends a waiting pop on a new connection, which the test closes later.
async fn waiting_connection(server: &Server, topic: &str) -> TcpStream {
    let mut connection = TcpStream::connect(server.address).await.expect("connected");
    let request = format!("GET /topics/{topic}/pop?wait=30s HTTP/1.1\r\nHost: localhost\r\n\r\n");
    connection.write_all(request.as_bytes()).await.expect("sent");
    connection
}

pub async fn a_client_that_disconnects_costs_no_consumer_a_job(server: Server) {
    for round in 0..20 {
        let mut gone = waiting_connection(&server, "t").await;
        server.until_pops_wait(1).await;
        // In half of the rounds, the client disconnects at the moment of the put.
        let put = format!(r#"{{"topic":"t","id":"job:{round}"}}"#);
        let mut leaving = None;
        if round % 2 == 0 {
            close(gone).await;
            server.put(&put).await;
        } else {
            let (_, closed) = tokio::join!(server.put(&put), gone.shutdown());
            closed.expect("closed");
            leaving = Some(gone);
        }
        let put_at = Stopwatch::start();
        let jobs =
            server.pop(if leaving.is_some() { "t/pop?wait=2s" } else { "t/pop?wait=30s" }).await;
        if jobs.is_empty() {
            let told = server.get(&format!("/jobs/job:{round}")).await.text;
            let Some(mut gone) = leaving else { panic!("round {round}: {told}") };
            // The client may have received the job before it disconnected.
            let mut had = String::new();
            gone.read_to_string(&mut had).await.expect("the received bytes");
            assert!(had.contains(&format!("job:{round}\"")), "round {round}: {told}");
            server.act(&format!("job:{round}"), "finish", "").await;
            continue;
        }
        let job = &jobs[0];
        assert!(
            put_at.elapsed() < scaled(Duration::from_secs(8)),
            "{round}: {:?}",
            put_at.elapsed()
        );
        assert_shows(job, json!({"id": format!("job:{round}"), "attempt": 1}));
        server.act(&format!("job:{round}"), "finish", "").await.is_done();
    }
}
