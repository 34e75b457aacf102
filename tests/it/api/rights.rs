//! Rights of the Redis user that are revoked while servers run.

use crate::api::prelude::*;
use crate::store::damage::INVARIANTS;

const JOBS: usize = 400;

/// Returns the problems that the doctor's script finds in any bucket.
fn problems(redis: &Redis) -> Vec<String> {
    let port = redis.port();
    let keys = ask(port, &["KEYS", "*:incarnation"]).expect("an answer").texts();
    let of_bucket = |key: &String| {
        let tag = key.trim_end_matches(":incarnation");
        ask(port, &["EVAL", INVARIANTS, "0", tag]).expect("an answer").texts()
    };
    keys.iter().flat_map(of_bucket).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_is_reported_and_loses_no_job() {
    let redis = Redis::start();
    let server = Arc::new(Server::at(&redis).await);
    let ids = |kind: &str| (0..JOBS).map(|n| format!("{kind}:{n}")).collect::<Vec<_>>();
    for right in ["zadd", "zrem", "zremrangebyrank", "hset", "hdel"] {
        // A call by a reservation shows the missing right, so these must not end before.
        let ttr = if right == "hdel" { "15s" } else { "1s" };
        let put = |kind: &str, delay: &str| {
            let job = |id| json!({"topic": kind, "id": id, "delay": delay, "ttr": ttr});
            json!({"jobs": ids(kind).into_iter().map(job).collect::<Vec<_>>()}).to_string()
        };
        server.post("/batch/jobs", put("held", "0s")).await.ok(200);
        let mut held = Vec::new();
        while held.len() < JOBS {
            held.extend(server.pop("held/pop?count=100&wait=5s").await);
        }
        server.post("/batch/jobs", put("due", "300ms")).await.ok(200);
        redis.command(&format!("ACL SETUSER default -{right}")).expect("an answer");
        let taken = Instant::now();
        let named = |text: &str| text.contains(&format!("allow +{right}"));
        loop {
            if right == "hdel" {
                // Timers do not need this right, so only a call can notice that it is missing.
                let (id, token) = (id_of(&held[0]), reservation_of(&held[0]));
                let finish = format!("/jobs/{id}/finish?reservation={token}");
                server.post(&finish, "").await.problem(503, "store_unavailable");
            }
            let ready = server.get("/readyz").await;
            if ready.status == 503 && named(&ready.text) {
                break;
            }
            assert!(taken.elapsed() < patience(), "{right}: {}", ready.text);
            pass(Duration::from_millis(20)).await; // no event reports that the server noticed
        }
        server.get("/topics/due/pop").await.problem(503, "store_unavailable");
        redis.command(&format!("ACL SETUSER default +{right}")).expect("an answer");
        eventually!(
            server.get("/readyz").await.status == 200,
            "{right}: the server does not become ready again"
        );
        assert_eq!(problems(&redis), Vec::<String>::new(), "{right}");
        let back = Instant::now();
        let mut missing: BTreeSet<String> =
            [ids("due"), ids("held")].concat().into_iter().collect();
        while !missing.is_empty() {
            assert!(back.elapsed() < patience(), "{right}: {missing:?} are not delivered");
            for job in server.pop("due,held/pop?count=100&wait=1s&ttr=1h").await {
                let id = id_of(&job);
                assert!(missing.remove(id), "{right}: {id} was delivered twice");
                let finish = format!("/jobs/{id}/finish?reservation={}", reservation_of(&job));
                server.post(&finish, "").await.is_done();
            }
        }
        assert_eq!(problems(&redis), Vec::<String>::new(), "{right}");
    }
}

/// If a script fails after it has put some jobs of a batch, its answer must not claim that it has
/// put none.
#[tokio::test(flavor = "multi_thread")]
async fn a_put_answered_as_not_applied_has_put_no_job() {
    let redis = Redis::start();
    let server = Server::at(&redis).await;
    server.put(r#"{"topic":"t","id":"living"}"#).await;
    for right in ["hget", "zscore"] {
        // The id of the last job is taken, and some of the other jobs are in its bucket.
        let ids: Vec<String> = (0..JOBS).map(|n| format!("{right}:{n}")).collect();
        let jobs = ids.iter().map(String::as_str).chain(["living"]);
        let jobs: Vec<_> = jobs.map(|id| json!({"topic": "t", "id": id})).collect();
        redis.command(&format!("ACL SETUSER default -{right}")).expect("an answer");
        let answer = server.post("/batch/jobs", json!({"jobs": jobs})).await.ok(200);
        redis.command(&format!("ACL SETUSER default +{right}")).expect("an answer");
        eventually!(
            server.get("/readyz").await.status == 200,
            "{right}: the server does not become ready again"
        );
        let results = answer["results"].as_array().expect("results");
        assert_eq!(
            results[JOBS]["applied"], "no",
            "{right}: the put of the taken id was not refused"
        );
        let mut refused = 0;
        for (id, result) in ids.iter().zip(results) {
            let is_put = server.get(&format!("/jobs/{id}")).await.status == 200;
            match result["status"].as_u64() {
                Some(201) => assert!(is_put, "{right}: {id} is missing although its put succeeded"),
                _ => {
                    assert_eq!(result["applied"], "no", "{right}: {result}");
                    assert!(!is_put, "{right}: {id} was put although its put was refused");
                    refused += 1;
                }
            }
        }
        assert!(
            (1..JOBS).contains(&refused),
            "{right}: {refused} puts were refused; expected those in the bucket of the last job"
        );
    }
}
