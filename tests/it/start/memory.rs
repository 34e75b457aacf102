//! Memory of requests and answers, measured as the resident memory of the real binary.

use std::net::IpAddr;

use crate::start::connections::{ask, begin, request, slow_reader};
use crate::start::prelude::*;

/// Returns a batch put of 6.7 MiB.
fn large_put() -> Vec<u8> {
    let body = "x".repeat(260_000);
    let jobs = vec![json!({"topic": "t", "body": body}); 27];
    request("POST /batch/jobs", &json!({"jobs": jobs}).to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn puts_that_wait_for_the_store_are_bounded() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let limit = "[limits]\nmemory_bytes = 67108864\nbody_timeout = \"10m\"\n";
    let server = place.server(&(store(&redis.url(), "") + limit)).await;
    let frozen = freeze(redis.port());
    let address = server.address();
    let put = Arc::new(large_put());
    let clients: Vec<_> = (0..60)
        .map(|_| {
            let (address, put) = (address.clone(), Arc::clone(&put));
            thread::spawn(move || ask(&address, &put).expect("an answer"))
        })
        .collect();
    let mut most = 0;
    while clients.iter().any(|client| !client.is_finished()) {
        most = most.max(resident_of(server.id()));
        tokio::time::sleep(Duration::from_millis(20)).await; // no event reports the memory
    }
    let answers = clients.into_iter().map(|client| client.join().expect("joined"));
    let mut refused = 0;
    for answer in answers {
        let problem = answer.json();
        assert_eq!(answer.status, 503, "{problem}");
        if problem["code"] == "overloaded" {
            assert_eq!(problem["applied"], "no");
            assert!(answer.head.contains("retry-after: "), "{}", answer.head);
            refused += 1;
        }
    }
    assert!(refused > 0, "none of 60 puts was refused");
    assert!(most < 250, "the server uses {most} MiB, although requests are limited to 64 MiB");
    frozen.thaw();
    let put = || ask(&address, &put).expect("an answer").status;
    eventually!(put() == 200, "the server does not recover");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claimed_length_uses_no_memory() {
    let (_place, server) = started("").await;
    let before = resident_of(server.id());
    let request = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388608\r\n\r\n{";
    let claims: Vec<_> = (0..200).map(|_| begin(&server.address(), request)).collect();
    // The server has read the earlier requests, or will do so soon.
    for _ in 0..50 {
        assert_eq!(server.get("/healthz").await.0, 200);
        let now = resident_of(server.id());
        assert!(now < before + 60, "memory grew from {before} MiB to {now} MiB");
    }
    drop(claims);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_not_read_are_bounded() {
    const LIMIT: u64 = 128;
    let limits = "[limits]\nmax_body_bytes = 16000000\nrequest_bytes = 17000000\n\
                  memory_bytes = 134217728\nwrite_timeout = \"1h\"\n";
    let (_place, server) = started(limits).await;
    let body = "x".repeat(15_000_000);
    for (id, delay) in [("large", "1h"), ("popped", "0s")] {
        server.put_job(json!({"topic": "t", "id": id, "body": body, "delay": delay})).await;
    }
    for n in 0..60 {
        server.put_job(json!({"topic": "small", "id": n.to_string()})).await;
    }
    let other = crate::support::http::builder().local_address(IpAddr::from([127, 0, 0, 2]));
    let other = other.build().expect("a client");
    let pop = async |topic: &str| {
        let answer = other.get(format!("{}/topics/{topic}/pop?wait=5s", server.base)).send().await;
        let answer = answer.expect("an answer");
        (answer.status().as_u16(), answer.json::<Value>().await.expect("JSON"))
    };
    let before = resident_of(server.id());
    let (mut readers, mut refused, mut most) = (Vec::new(), 0, 0);
    for number in 0..60 {
        let mut reader = slow_reader(&server.address());
        reader.write_all(&request("GET /jobs/large", "")).expect("sent");
        let mut first = [0; 12];
        reader.read_exact(&mut first).expect("an answer");
        refused += u32::from(&first == b"HTTP/1.1 503");
        readers.push(reader);
        most = most.max(resident_of(server.id()));
        // Meanwhile, another caller pops its jobs.
        let (status, popped) = pop("small").await;
        assert_eq!((status, popped["jobs"][0]["attempt"].as_u64()), (200, Some(1)), "{number}");
    }
    assert!(refused > 0, "the caller may use only half of the memory of answers");
    assert!(most < before + LIMIT + 128, "memory grew from {before} MiB to {most} MiB");
    // A pop whose answer has no room must reserve no job.
    let mine = ask(&server.address(), &request("GET /topics/t/pop", "")).expect("an answer");
    let popped = if mine.status == 503 {
        let problem = mine.json();
        assert_eq!((&problem["code"], &problem["applied"]), (&"overloaded".into(), &"no".into()));
        pop("t").await.1
    } else {
        mine.json()
    };
    let popped = &popped["jobs"][0];
    assert_eq!((&popped["id"], &popped["attempt"]), (&"popped".into(), &1.into()));
    // The caller that does not read gets answers again once the server has closed the connections
    // with the longest unread answers.
    let is_served = async || server.get("/jobs/large").await.0 == 200;
    eventually!(is_served().await, "slow readers still occupy the answer memory");
    drop(readers);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_too_large_for_one_answer_come_in_several() {
    let redis = Redis::start();
    for url in ["file:./data", &redis.url()] {
        let limits =
            "[limits]\nmax_body_bytes = 900000\nrequest_bytes = 1000000\nmemory_bytes = 4194304\n";
        let (_place, server) = started(&(store(url, "") + limits)).await;
        let body = "x".repeat(800_000);
        for n in 0..12 {
            server.put_job(json!({"topic": "t", "id": n.to_string(), "body": body})).await;
        }
        let mut delivered = 0;
        while delivered < 12 {
            // The server gives back jobs that did not fit a moment later.
            let (status, popped) = server.get("/topics/t/pop?count=100&wait=20s").await;
            assert_eq!(status, 200, "after {delivered} jobs: {popped}");
            let jobs = popped["jobs"].as_array().expect("jobs");
            assert!(!jobs.is_empty(), "no more jobs after {delivered}");
            assert!(jobs.iter().all(|job| job["attempt"] == 1), "a job given back was counted");
            delivered += jobs.len();
        }
        assert_eq!(delivered, 12);
    }
}
