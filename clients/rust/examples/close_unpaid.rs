//! Closes orders that are not paid in time.

use std::time::Duration;

use delay_queue_client::{BoxError, Job, Queue, Worker, shutdown_signal};

async fn close_unpaid(job: Job<u64>) -> Result<(), BoxError> {
    println!("order {} is closed", job.body);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let queue = Queue::new(&std::env::var("DELAY_QUEUE_URL")?)?;
    queue.put("orders", &4711).id("close:4711").delay(Duration::from_secs(2)).await?;
    Ok(Worker::new(queue).on("orders", close_unpaid).run_until(shutdown_signal()).await?)
}
