//! Steps against the fake.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use delay_queue_client::{
    Queue, Worker,
    fake::{Ended, Fake, Ran},
};
use serde_json::{Value, json};

use crate::{
    commands::{cancel, put},
    gates::Gates,
    reply::Failure,
    work::with_handler,
};

pub async fn run(steps: &Value) -> Result<Value, Failure> {
    let steps = steps.as_array().ok_or_else(|| Failure::Usage("steps is a list".to_owned()))?;
    let fake = Fake::new();
    let topics: BTreeSet<&str> =
        steps.iter().filter_map(|step| step["put"]["topic"].as_str()).collect();
    let gates: Arc<Gates> = Arc::default();
    let worker = topics.iter().fold(Worker::new(fake.queue()), |worker, topic| {
        with_handler(worker, topic, &gates, false)
    });
    let mut results = Vec::new();
    for step in steps {
        results.push(match one(&fake, &worker, step).await {
            Ok(value) => value,
            Err(failure) => json!({"error": failure.json()}),
        });
    }
    Ok(Value::Array(results))
}

async fn one(fake: &Fake, worker: &Worker, step: &Value) -> Result<Value, Failure> {
    let queue: Queue = fake.queue();
    if step["put"].is_object() {
        return Ok(json!(put(&queue, &step["put"])?.await?));
    }
    if let Some(seconds) = step["advance"].as_f64() {
        fake.advance(Duration::from_secs_f64(seconds));
        return Ok(Value::Null);
    }
    if step["run"] == true {
        return Ok(fake.run_due(worker).await.iter().map(ran).collect());
    }
    if step["cancel"].is_string() {
        return cancel(&queue, &json!({"id": step["cancel"], "remember": step["remember"]})).await;
    }
    let job = queue.get(step["get"].as_str().unwrap_or_default()).await?;
    Ok(job.map_or(Value::Null, |job| {
        json!({"id": job.id, "state": job.state, "attempt": job.attempt, "error": job.error, "result": job.result})
    }))
}

fn ran(ran: &Ran) -> Value {
    let outcome = match ran.ended {
        Ended::Finished => "finished",
        Ended::Released => "released",
        Ended::Buried => "buried",
        Ended::Snoozed => "snoozed",
    };
    json!({"id": ran.id, "attempt": ran.attempt, "outcome": outcome})
}
