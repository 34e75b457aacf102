//! The worker that the suite starts and stops.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use delay_queue_client::{Queue, Worker};
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    gates::Gates,
    handler::{handle, handle_order, handle_quietly},
    reply::{of, print},
};

#[derive(Default)]
pub struct Work(Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>);

impl Work {
    pub fn start(&self, queue: Queue, gates: &Arc<Gates>, command: &Value) {
        let worker = worker(queue, gates, command);
        let (stop, stopped) = oneshot::channel::<()>();
        let run = tokio::spawn(async move {
            let ended = match worker.run_until(stopped).await {
                Ok(()) => json!({"event": "worker_ended"}),
                Err(error) => json!({"event": "worker_ended", "error": of(&error)}),
            };
            print(&ended);
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((stop, run));
    }

    /// Ends the worker, if there is one, and waits until it has returned.
    pub async fn stop(&self) {
        let work = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((stop, run)) = work {
            drop(stop);
            if let Err(error) = run.await {
                eprintln!("the worker panicked: {error}");
            }
        }
    }
}

fn worker(queue: Queue, gates: &Arc<Gates>, command: &Value) -> Worker {
    let concurrency = command["concurrency"].as_u64().and_then(|n| usize::try_from(n).ok());
    let mut worker = Worker::new(queue).concurrency(concurrency.unwrap_or(16));
    if let Some(grace) = command["grace"].as_f64() {
        worker = worker.grace(Duration::from_secs_f64(grace));
    }
    if let Some(wait) = command["wait"].as_f64() {
        worker = worker.wait(Duration::from_secs_f64(wait));
    }
    for topic in command["topics"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        worker = if command["types"] == true {
            worker.on(topic, handle_order)
        } else if command["quiet"] == true {
            worker.on(topic, handle_quietly)
        } else {
            with_handler(worker, topic, gates, true)
        };
    }
    worker
}

pub fn with_handler(worker: Worker, topic: &str, gates: &Arc<Gates>, has_events: bool) -> Worker {
    let gates = Arc::clone(gates);
    worker.on(topic, move |job| handle(job, Arc::clone(&gates), has_events))
}
