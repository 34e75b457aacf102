//! The expiry of jobs: the calls that set it, the calls that change it, and invalid values.

use crate::api::prelude::*;

pub fn time(job: &Value, field: &str) -> Timestamp {
    let text = job[field].as_str().unwrap_or_else(|| panic!("no {field}: {job}"));
    text.parse().expect("a time")
}

/// Returns the time from the due time of a job until its expiry.
pub fn span(job: &Value) -> Duration {
    time(job, "expires_at")
        .duration_since(time(job, "due_at"))
        .try_into()
        .expect("the expiry is after the due time")
}

pub async fn get(server: &Server, id: &str) -> Value {
    server.get(&format!("/jobs/{id}")).await.ok(200)
}

pub async fn patch(server: &Server, id: &str, change: &Value) -> Value {
    server.call(Method::PATCH, &format!("/jobs/{id}"), change.to_string()).await.ok(200)
}

pub async fn act(server: &Server, id: &str, action: &str, request: &Value) -> Answer {
    server.post(&format!("/jobs/{id}/{action}"), request.to_string()).await
}

pub async fn until_dead(server: &Server, id: &str) -> Value {
    eventually!(get(server, id).await["state"] == "dead", "{id} does not expire");
    let job = get(server, id).await;
    assert_eq!(job["error"], "expired", "{job}");
    job
}

pub async fn a_put_sets_the_expiry_of_its_job(server: Server) {
    const HOUR: Duration = Duration::from_secs(3_600);
    let put = |id: &str, more: Value| {
        let mut put = json!({"topic": "t", "id": id, "expires_after": "1h"});
        put.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        put
    };
    let jobs = [
        put("now", json!({})),
        put("delay", json!({"delay": "30d"})),
        put("due", json!({"due_at": 1_900_000_000_000_u64})),
        put("past", json!({"due_at": 1_000_000_000_000_u64})),
    ];
    server.put(&jobs[0].to_string()).await;
    server.put(&jobs[1].to_string()).await;
    let batch =
        json!({"jobs": [jobs[2], jobs[3], {"topic": "t", "id": "none", "expires_after": null}]});
    server.post("/batch/jobs", batch.to_string()).await.ok(200);
    for id in ["now", "delay", "due", "past"] {
        let job = get(&server, id).await;
        assert_eq!((span(&job), &job["expires_after"]), (HOUR, &json!(3600)), "{job}");
    }
    assert_eq!(get(&server, "due").await["expires_at"], "2030-03-17T18:46:40.000Z");
    let rounded = put("rounded", json!({"expires_after": 0.0001}));
    server.put(&rounded.to_string()).await;
    assert_eq!(get(&server, "rounded").await["expires_after"], 0.001);
    let longest = put("longest", json!({"delay": "3650d", "expires_after": "3650d"}));
    server.put(&longest.to_string()).await;
    assert_eq!(span(&get(&server, "longest").await), 24 * 3650 * HOUR);

    let replace = json!({"topic": "t", "id": "delay", "on_conflict": "replace"});
    server.post("/jobs", replace.to_string()).await.ok(200);
    for id in ["none", "delay"] {
        let job = get(&server, id).await;
        let fields = ["expires_at", "expires_after"].map(|field| job.get(field));
        assert_eq!(fields, [None, None], "{job}");
    }
    let mut popped = Vec::new();
    while popped.len() < 4 {
        popped.extend(server.pop("t/pop?wait=30s&count=10").await);
    }
    let expires = |job: &&Value| job.get("expires_at").is_some();
    assert_eq!((popped.len(), popped.iter().filter(expires).count()), (4, 2), "{popped:?}");
}

pub async fn a_topic_has_a_default_expiry(server: Server) {
    let put_topic = async |body: &Value| {
        server.call(Method::PUT, "/topics/t", body.to_string()).await.ok(200)["defaults"].clone()
    };
    let defaults = put_topic(&json!({"expires_after": "2h"})).await;
    assert_eq!(defaults["expires_after"], 7200);
    assert_eq!(put_topic(&server.get("/topics/t").await.ok(200)).await, defaults);
    let batch = json!({"jobs": [
        {"topic": "t", "id": "none"}, {"topic": "t", "id": "null", "expires_after": null},
        {"topic": "t", "id": "own", "expires_after": "1d"},
    ]});
    server.post("/batch/jobs", batch.to_string()).await.ok(200);
    for (id, hours) in [("none", 2), ("null", 2), ("own", 24)] {
        assert_eq!(span(&get(&server, id).await), Duration::from_secs(3_600 * hours), "{id}");
    }
    assert_eq!(put_topic(&json!({"expires_after": null})).await["expires_after"], Value::Null);
    server.put(r#"{"topic":"t","id":"never"}"#).await;
    assert!(get(&server, "never").await.get("expires_at").is_none());
    assert_eq!(
        span(&get(&server, "none").await),
        Duration::from_secs(7_200),
        "the default has changed an existing job"
    );
}

pub async fn a_change_sets_the_expiry_again(server: Server) {
    server.put(r#"{"topic":"t","id":"a","delay":"1h","expires_after":"1h"}"#).await;
    let hours = |n: u64| Duration::from_secs(3_600 * n);
    let before = get(&server, "a").await;
    for change in [json!({"ttr": 90}), json!({"priority": 9}), json!({"body": 1})] {
        assert_eq!(patch(&server, "a", &change).await["expires_at"], before["expires_at"]);
    }
    // A client may send the whole answer of a GET back.
    let mut shown = get(&server, "a").await;
    assert_eq!(patch(&server, "a", &shown).await, shown);
    shown["ttr"] = json!(30);
    assert_eq!(patch(&server, "a", &shown).await, shown);

    let later = patch(&server, "a", &json!({"delay": "5h"})).await;
    assert_eq!(span(&later), hours(1));
    assert!(time(&later, "expires_at") > time(&before, "expires_at"));
    let at = patch(&server, "a", &json!({"due_at": "2032-01-01T00:00:00Z"})).await;
    assert_eq!(at["expires_at"], "2032-01-01T01:00:00.000Z");
    let longer = patch(&server, "a", &json!({"expires_after": "3h"})).await;
    assert_eq!(longer["expires_at"], "2032-01-01T03:00:00.000Z");
    let both = json!({"due_at": "2033-01-01T00:00:00Z", "expires_after": "2h"});
    assert_eq!(patch(&server, "a", &both).await["expires_at"], "2033-01-01T02:00:00.000Z");
    let mut shown = get(&server, "a").await;
    shown["due_at"] = json!("2034-01-01T00:00:00Z");
    let shown = patch(&server, "a", &shown).await;
    assert_eq!(shown["expires_at"], "2034-01-01T02:00:00.000Z");
    let mut other = shown.clone();
    other["expires_at"] = json!("2035-01-01T00:00:00Z");
    let refused = server.call(Method::PATCH, "/jobs/a", other.to_string()).await;
    assert_eq!(refused.problem(422, "invalid_field")["field"], "expires_at");

    let never = patch(&server, "a", &json!({"expires_after": null})).await;
    assert_eq!([never.get("expires_at"), never.get("expires_after")], [None, None]);
    assert!(patch(&server, "a", &json!({"delay": 0})).await.get("expires_at").is_none());
    let ready = patch(&server, "a", &json!({"expires_after": "1h"})).await;
    assert_eq!((span(&ready), &ready["state"]), (hours(1), &json!("ready")));
    patch(&server, "a", &json!({"expires_after": 0.2})).await;
    let dead = until_dead(&server, "a").await;
    assert_eq!((&dead["died_at"], &dead["due_at"]), (&dead["expires_at"], &ready["due_at"]));
}

pub async fn no_other_call_changes_the_expiry(server: Server) {
    server.put(r#"{"topic":"t","id":"a","delay":"1h","expires_after":"3h","ttr":1}"#).await;
    let expires_at = get(&server, "a").await["expires_at"].clone();
    // A kick of a delayed job makes it due now, and does not change its expiry.
    act(&server, "a", "kick", &json!({})).await.ok(200);
    assert_eq!(get(&server, "a").await["expires_at"], expires_at);
    let popped = server.pop_one("t").await;
    assert_eq!(popped["expires_at"], expires_at);
    let again = server.pop("t/pop?wait=30s&ttr=1h").await;
    assert_eq!(again[0]["attempt"], 2, "the TTR has not expired");
    assert_eq!(get(&server, "a").await["expires_at"], expires_at);
    act(&server, "a", "touch", &json!({"ttr": "1h"})).await.ok(200);
    for request in [json!({"delay": "1h"}), json!({"delay": 0, "count_attempt": false, "body": 7})]
    {
        act(&server, "a", "release", &request).await.ok(200);
        assert_eq!(get(&server, "a").await["expires_at"], expires_at, "{request}");
        act(&server, "a", "kick", &json!({})).await.ok(200);
        server.pop("t/pop?ttr=1h").await;
    }
    act(&server, "a", "bury", &json!({})).await.ok(200);
    assert_eq!(get(&server, "a").await["expires_at"], expires_at);
    // Only the kick of a dead job sets a new expiry.
    act(&server, "a", "kick", &json!({})).await.ok(200);
    let kicked = get(&server, "a").await;
    assert_eq!(span(&kicked), Duration::from_secs(3 * 3_600));
    assert!(time(&kicked, "expires_at") < expires_at.as_str().expect("text").parse().expect("one"));
}

pub async fn a_bad_expiry_is_refused_by_its_name(server: Server) {
    server.put(r#"{"topic":"t","id":"a","delay":"1h"}"#).await;
    for value in [
        json!(0),
        json!("0s"),
        json!(-1),
        json!("-1s"),
        json!("5"),
        json!("1M"),
        json!("soon"),
        json!(""),
        json!(true),
        json!(["1h"]),
        json!({}),
        json!(315_576_001),
        json!("11y"),
        json!(1e300),
    ] {
        let put = json!({"topic": "t", "id": "b", "expires_after": value});
        for (method, path, request) in [
            (Method::POST, "/jobs", put.clone()),
            (Method::PATCH, "/jobs/a", json!({"ttr": 90, "expires_after": value})),
            (Method::PUT, "/topics/t", json!({"ttr": 90, "expires_after": value})),
        ] {
            let answer = server.call(method, path, request.to_string()).await;
            let problem = answer.problem(422, "invalid_field");
            assert_eq!(problem["field"], "expires_after", "{value}");
        }
        let batch = json!({"jobs": [put]}).to_string();
        let results = server.post("/batch/jobs", batch).await.ok(200)["results"].clone();
        assert_eq!(results[0]["field"], "jobs[0].expires_after", "{value}");
    }
    // Clients cannot set the time of the expiry, only the store can.
    let at = json!({"topic": "t", "id": "b", "expires_at": "2032-01-01T00:00:00Z"});
    let refused = server.post("/jobs", at.to_string()).await.problem(422, "invalid_field");
    assert_eq!(refused["field"], "expires_at");
    server.get("/jobs/b").await.problem(404, "job_not_found");
    let job = get(&server, "a").await;
    assert_eq!((&job["ttr"], job.get("expires_at")), (&json!(60), None));
    server.get("/topics/t").await.ok(200)["defaults"]["ttr"].as_null().expect("no defaults");
}
