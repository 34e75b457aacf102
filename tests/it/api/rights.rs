//! Rights that are revoked while servers run.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::support::patience::patience;
use crate::{
    api::server::{Server, pass, reservation_of},
    store::damage::INVARIANTS,
    support::{Redis, resp::ask},
};

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
async fn a_missing_right_is_named_and_costs_no_job() {
    let redis = Redis::start();
    let server = Arc::new(Server::at(&redis).await);
    let ids = |kind: &str| (0..JOBS).map(|n| format!("{kind}:{n}")).collect::<Vec<_>>();
    for right in ["zadd", "zrem", "zremrangebyrank", "hset", "hdel"] {
        let put = |kind: &str, delay: &str| {
            let job = |id| json!({"topic": kind, "id": id, "delay": delay, "ttr": "1s"});
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
                // No timer needs this right for these jobs.
                let (id, token) =
                    (held[0]["id"].as_str().expect("an id"), reservation_of(&held[0]));
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
        eventually!(server.get("/readyz").await.status == 200, "{right}: it does not come back");
        assert_eq!(problems(&redis), Vec::<String>::new(), "{right}");
        let back = Instant::now();
        let mut missing: BTreeSet<String> =
            [ids("due"), ids("held")].concat().into_iter().collect();
        while !missing.is_empty() {
            assert!(back.elapsed() < patience(), "{right}: {missing:?} do not come");
            for job in server.pop("due,held/pop?count=100&wait=1s&ttr=1h").await {
                let id = job["id"].as_str().expect("an id");
                assert!(missing.remove(id), "{right}: {id} came twice");
                let finish = format!("/jobs/{id}/finish?reservation={}", reservation_of(&job));
                assert_eq!(server.post(&finish, "").await.status, 204, "{right}");
            }
        }
        assert_eq!(problems(&redis), Vec::<String>::new(), "{right}");
    }
}
