//! Microbenchmarks of the codec, the coalescer, and the transitions of both stores, run by `cargo
//! bench`. They need redis-server.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use delay_queue::{
    job::{Bucket, Buckets, IdMaker, NewJob, Nonce, PoppedJob, Topics},
    queue::Coalescer,
    store::{
        Clock, Finish, JobRef, Options, PopRequest, Store,
        file::FileStore,
        redis::{PoolRecord, RedisOptions, RedisStore, record_header, record_rest},
    },
};
use futures::future::join_all;
use tokio::runtime::Runtime;
use tokio_util::task::TaskTracker;

#[path = "../tests/it/support/redis.rs"]
mod redis;

/// Jobs per call.
const BATCHES: [usize; 3] = [1, 10, 100];

fn new_job(ids: &IdMaker) -> NewJob {
    let body = format!("\"{}\"", "x".repeat(198));
    let topic = "orders".parse().expect("a topic");
    NewJob::new(ids.next(Clock::Own.now().floor, 0, |_| true), topic, body)
}

fn codec(criterion: &mut Criterion) {
    let job = new_job(&IdMaker::default());
    let header = record_header(&job, Clock::Own.now().floor);
    let record = [&header[..], b"\n", &job.body].concat();
    let mut group = criterion.benchmark_group("codec");
    group.bench_function("write a record", |b| b.iter(|| record_rest(black_box(&job))));
    group.bench_function("read a record", |b| {
        b.iter(|| PoolRecord::parse(&job.id, black_box(record.clone())).expect("a record"));
    });
    group.finish();
}

/// Measures concurrent callers, with a call that takes no time.
fn coalescer(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("coalescer");
    for callers in [1_usize, 32, 256] {
        let coalescer = Coalescer::new(&TaskTracker::new(), |jobs: Vec<usize>| async move {
            jobs.into_iter().map(Ok).collect()
        });
        group.throughput(Throughput::Elements(callers as u64));
        group.bench_function(BenchmarkId::new("submit", callers), |b| {
            b.to_async(&runtime)
                .iter(|| join_all((0..callers).map(|caller| coalescer.submit(vec![caller]))));
        });
    }
    group.finish();
}

/// Durations of the transitions of one batch.
#[derive(Clone, Copy, Default)]
struct Spans {
    put: Duration,
    pop: Duration,
    finish: Duration,
}

/// Puts, pops and finishes one batch.
async fn run_batch(store: &dyn Store, ids: &IdMaker, batch: usize) -> Spans {
    let jobs = (0..batch).map(|_| new_job(ids)).collect();
    let count = u16::try_from(batch).expect("a small batch");
    let want =
        PopRequest { topic: "orders".parse().expect("a topic"), count, ttr: None, consumer: None };

    let began = Instant::now();
    assert!(store.put(vec![(Bucket::FIRST, jobs)]).await[0].is_ok());
    let put = began.elapsed();

    let began = Instant::now();
    let nonce = Nonce::new(began.elapsed().as_nanos() as u64);
    let popped = store.pop(vec![(Bucket::FIRST, (nonce, vec![want]))]).await;
    let pop = began.elapsed();

    let popped = popped.into_iter().next().expect("an outcome").expect("popped").remove(0).jobs;
    assert_eq!(popped.len(), batch);
    let held = |job: PoppedJob| JobRef {
        id: job.id,
        reservation: Some(job.reservation),
        topics: Topics::ALL,
    };
    let finish = |job| Finish { held: held(job), result: None };
    let finishes = popped.into_iter().map(finish).collect();
    let began = Instant::now();
    assert!(store.finish(vec![(Bucket::FIRST, finishes)]).await[0].is_ok());
    Spans { put, pop, finish: began.elapsed() }
}

fn transitions(criterion: &mut Criterion, name: &str, store: &Arc<dyn Store>) {
    let runtime = Runtime::new().expect("a runtime");
    let ids = IdMaker::default();
    for transition in ["put", "pop", "finish"] {
        let span = |spans: Spans| match transition {
            "put" => spans.put,
            "pop" => spans.pop,
            _ => spans.finish,
        };
        let mut group = criterion.benchmark_group(format!("{name} {transition}"));
        group.sample_size(20);
        for batch in BATCHES {
            group.throughput(Throughput::Elements(batch as u64));
            group.bench_function(BenchmarkId::from_parameter(batch), |b| {
                b.iter_custom(|rounds| {
                    let mut sum = Duration::ZERO;
                    for _ in 0..rounds {
                        sum += span(runtime.block_on(run_batch(&**store, &ids, batch)));
                    }
                    sum
                });
            });
        }
        group.finish();
    }
}

fn stores(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let options = Options::new(Some(Buckets::ONE), Clock::Own);
    let dir = tempfile::tempdir().expect("a folder");
    let file = FileStore::open(dir.path(), options.clone()).expect("a file store");
    transitions(criterion, "file", &(Arc::new(file) as Arc<dyn Store>));

    let server = redis::Redis::start();
    let redis = RedisOptions::new(server.url().parse().expect("a URL"), "micro");
    let redis = runtime.block_on(RedisStore::open(redis, options)).expect("a store on Redis");
    transitions(criterion, "redis", &(Arc::new(redis) as Arc<dyn Store>));
}

criterion_group!(benches, codec, coalescer, stores);
criterion_main!(benches);
