//! Workers on the fake. The clock of tokio is paused: it jumps to the next timer when nothing else
//! can run.

use std::{sync::Mutex, time::Duration};

use delay_queue_client::{BoxError, Error, Job, Worker, fake::Fake};
use tokio::{sync::oneshot, time::Instant};

const TTR: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn the_first_touch_comes_after_a_third_of_the_ttr() {
    let fake = Fake::new();
    fake.queue().put("a", &1).id("1").await.unwrap();
    let (running, ended) = oneshot::channel::<()>();
    let running = Mutex::new(Some(running));
    let clock = fake.clone();
    let worker = Worker::new(fake.queue()).concurrency(1).on("a", move |_: Job<u32>| {
        // The job is lost from now on, which the touch learns.
        clock.advance(TTR);
        let running = running.lock().unwrap().take();
        async move {
            let _until_dropped = running;
            std::future::pending::<()>().await;
            Ok::<_, BoxError>(())
        }
    });
    let started = Instant::now();
    let stop = async {
        ended.await.unwrap_err();
        let elapsed = started.elapsed();
        assert!((TTR / 3..TTR / 2).contains(&elapsed), "{elapsed:?}");
    };
    worker.run_until(stop).await.unwrap();
}

#[tokio::test]
async fn a_worker_without_handlers_does_not_run() {
    let error = Worker::new(Fake::new().queue()).run_until(async {}).await.unwrap_err();
    assert!(matches!(error, Error::Usage { field: "topics", .. }), "{error:?}");
}
