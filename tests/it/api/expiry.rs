//! The expiry of jobs: the calls that set it, the calls that change it, and invalid values.

use crate::api::prelude::*;

/// Returns the time from the due time of a job until its expiry.
pub fn span(job: &Value) -> Duration {
    time(job, "expires_at")
        .duration_since(time(job, "due_at"))
        .try_into()
        .expect("the expiry is after the due time")
}

pub async fn until_dead(server: &Server, id: &str) -> Value {
    let job = until(async || server.job(id).await, |job| job["state"] == "dead").await;
    assert_eq!(job["error"], "expired", "{job}");
    job
}

pub async fn a_put_sets_the_expiry_of_its_job(server: Server) {
    const HOUR: Duration = Duration::from_secs(3_600);
    let put = |id: &str, more| with(&json!({"topic": "t", "id": id, "expires_after": "1h"}), more);
    server.put(put("now", json!({}))).await;
    server.put(put("delay", json!({"delay": "30d"}))).await;
    let due = put("due", json!({"due_at": 1_900_000_000_000_u64}));
    let past = put("past", json!({"due_at": 1_000_000_000_000_u64}));
    server.put_all([due, past, put("none", json!({"expires_after": null}))]).await;
    for id in ["now", "delay", "due", "past"] {
        let job = server.job(id).await;
        assert_eq!((span(&job), &job["expires_after"]), (HOUR, &json!(3600)), "{job}");
    }
    assert_eq!(server.job("due").await["expires_at"], "2030-03-17T18:46:40.000Z");
    server.put(put("rounded", json!({"expires_after": 0.0001}))).await;
    assert_eq!(server.job("rounded").await["expires_after"], 0.001);
    server.put(put("longest", json!({"delay": "3650d", "expires_after": "3650d"}))).await;
    assert_eq!(span(&server.job("longest").await), 24 * 3650 * HOUR);

    let replace = json!({"topic": "t", "id": "delay", "on_conflict": "replace"});
    server.post("/jobs", replace).await.ok(200);
    for id in ["none", "delay"] {
        let job = server.job(id).await;
        let fields = ["expires_at", "expires_after"].map(|field| job.get(field));
        assert_eq!(fields, [None, None], "{job}");
    }
    let popped = server.pop_all("t", 4).await;
    let expires = |job: &&Value| job.get("expires_at").is_some();
    assert_eq!((popped.len(), popped.iter().filter(expires).count()), (4, 2), "{popped:?}");
}

pub async fn a_change_sets_the_expiry_again(server: Server) {
    server.put(r#"{"topic":"t","id":"a","delay":"1h","expires_after":"1h"}"#).await;
    let hours = |n: u64| Duration::from_secs(3_600 * n);
    let patch = async |change: Value| server.patch("a", change).await.ok(200);
    let before = server.job("a").await;
    for change in [json!({"ttr": 90}), json!({"priority": 9}), json!({"body": 1})] {
        assert_eq!(patch(change).await["expires_at"], before["expires_at"]);
    }
    // A client may send the whole answer of a GET back.
    let shown = server.job("a").await;
    for shown in [shown.clone(), with(&shown, json!({"ttr": 30}))] {
        assert_eq!(patch(shown.clone()).await, shown);
    }
    let later = patch(json!({"delay": "5h"})).await;
    assert_eq!(span(&later), hours(1));
    assert!(time(&later, "expires_at") > time(&before, "expires_at"));
    for (change, expires_at) in [
        (json!({"due_at": "2032-01-01T00:00:00Z"}), "2032-01-01T01:00:00.000Z"),
        (json!({"expires_after": "3h"}), "2032-01-01T03:00:00.000Z"),
        (
            json!({"due_at": "2033-01-01T00:00:00Z", "expires_after": "2h"}),
            "2033-01-01T02:00:00.000Z",
        ),
    ] {
        assert_eq!(patch(change).await["expires_at"], expires_at);
    }
    let shown = with(&server.job("a").await, json!({"due_at": "2034-01-01T00:00:00Z"}));
    let shown = patch(shown).await;
    assert_eq!(shown["expires_at"], "2034-01-01T02:00:00.000Z");
    let other = with(&shown, json!({"expires_at": "2035-01-01T00:00:00Z"}));
    server.patch("a", other).await.invalid("expires_at");

    let never = patch(json!({"expires_after": null})).await;
    assert_eq!([never.get("expires_at"), never.get("expires_after")], [None, None]);
    assert!(patch(json!({"delay": 0})).await.get("expires_at").is_none());
    let ready = patch(json!({"expires_after": "1h"})).await;
    assert_eq!((span(&ready), &ready["state"]), (hours(1), &json!("ready")));
    patch(json!({"expires_after": 0.2})).await;
    let dead = until_dead(&server, "a").await;
    assert_shows(&dead, json!({"died_at": dead["expires_at"], "due_at": ready["due_at"]}));
}
