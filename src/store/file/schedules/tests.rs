use super::*;
use crate::{
    job::Buckets,
    store::{Clock, Options},
};

#[tokio::test]
async fn a_refused_removal_does_not_silence_a_due_schedule() {
    let (dir, now) = (tempfile::tempdir().expect("a folder"), UnixMillis::new(1_800_000_000_000));
    let options = Options::new(Some(Buckets::ONE), Clock::set_at(now));
    let store = FileStore::open(dir.path(), options).expect("a new store");
    let name: ScheduleName = "s".parse().expect("a name");
    let new = Some(NewSchedule { text: "{}".to_owned(), next_at: Some(now) });
    let create = ScheduleChange { name: name.clone(), old: None, new };
    let created = store.change_schedules(vec![create]).await.expect("a change");
    assert_eq!(created, [ScheduleChanged::Done]);
    // A look in the same batch as a removal, which is then refused.
    let refused = store.writer.call(move |writer| {
        writer.all_or_nothing(|writer| {
            writer.writes.push(Write::Schedule { name, new: None });
            assert_eq!(writer.due_schedules(10)?.due, []);
            Err::<(), _>(StoreError::unavailable("no room"))
        })
    });
    refused.await.expect_err("refused");
    assert_eq!(store.due_schedules(10).await.expect("a look").due.len(), 1);
}
