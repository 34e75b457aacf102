//! The ordinary load on a file store, through a proxy that lies. The judge must object to each lie,
//! and to no other job. Without lies, it must have no objection.

use tokio::sync::Mutex;

use crate::faults::liar::Liar;
use crate::faults::load;
use crate::faults::prelude::*;

/// Allows only one load at a time, since the judge notices 50 ms only if answers are faster than
/// that.
static ALONE: Mutex<()> = Mutex::const_new(());

#[derive(Debug)]
struct Verdict {
    lies: usize,
    found: BTreeMap<Rule, usize>,
    /// Objections that no lie explains.
    unexplained: Vec<Objection>,
}

/// Runs a load with at least `least` lies, one of which breaks `rule`. Judges the load.
async fn verdict(lie: Lie, least: usize, rule: Option<Rule>) -> Verdict {
    let _alone = ALONE.lock().await;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let server = Process::start(dir.path(), &["--store", "file:./data"]).await;
    let liar = Liar::in_front_of(&server.base, lie).await;
    let history = Arc::new(History::new());
    let servers = [liar.base.clone()];
    let load = Load::start(&history, &servers, Again::Never);
    // Waits until TTRs have ended and the proxy has told enough lies.
    let under_load = rule.filter(|rule| *rule != Rule::Early);
    while history.now() < Duration::from_secs(6)
        || liar.lie_count() < least
        || !shows(under_load, &history)
    {
        assert!(
            history.now() < scaled(Duration::from_secs(300)),
            "none of {} lies has an effect that the judge can notice",
            liar.lie_count()
        );
        tokio::time::sleep(Duration::from_millis(200)).await; // the load must run
    }
    let (calls, took) = (history.operations(), history.now());
    load.stop().await;
    if rule == Some(Rule::Early) {
        wait_for_one_early(&history, &servers).await;
    }
    liar.stop_lying();
    let file = dir.path().join("data");
    let read = || scan_file(&file, &TOPICS);
    let left = scan_agreed(&server.base, &TOPICS, read).await;
    let mut found = judge(&history.calls(), &left, &[]);
    let empty = async || pending(&tokio::task::block_in_place(read)) == 0;
    assert!(load::drain(&history, &servers, empty, patience()).await, "jobs are left");
    let left = scan_agreed(&server.base, &TOPICS, read).await;
    found.extend(judge(&history.calls(), &left, &[]));

    history.print();
    let mut rules = BTreeMap::new();
    for objection in &found {
        let count: &mut usize = rules.entry(objection.rule).or_default();
        if *count == 0 {
            println!("{:?}: {}", objection.rule, objection.what);
        }
        *count += 1;
    }
    let unexplained = found.into_iter().filter(|objection| !liar.explains(objection)).collect();
    let a_second = calls as f64 / took.as_secs_f64();
    println!(
        "{lie:?}: {} lies, {rules:?}; {calls} calls, {a_second:.0} a second",
        liar.lie_count()
    );
    Verdict { lies: liar.lie_count(), found: rules, unexplained }
}

/// Waits until a lie about a due time is noticeable. Under load, answers take longer than the 50 ms
/// of the lie, so this uses a single client.
async fn wait_for_one_early(history: &Arc<History>, servers: &[String]) {
    let mut client = Client::new(Arc::clone(history), servers, 0);
    for probe in 0..200 {
        let (id, delay) = (format!("probe:{probe}").into(), Duration::from_millis(300));
        let put = Put {
            topic: "t",
            id: Some(Arc::clone(&id)),
            body: id,
            delay,
            max_attempts: 20,
            finished_retention: Duration::ZERO,
            priority: 4,
            expires_after: None,
        };
        client.put(put).await;
        for job in client.pop("t", "wait=2s&count=20").await {
            client.finish(&job).await;
        }
        if shows(Some(Rule::Early), history) {
            return;
        }
    }
    panic!("no early delivery was noticeable");
}

/// Returns whether a lie against this rule is noticeable yet. Lies about times are noticeable only
/// in quick answers, which a busy machine may not give. A lost job is noticeable only at the end.
fn shows(rule: Option<Rule>, history: &History) -> bool {
    let Some(rule) = rule.filter(|rule| *rule != Rule::Lost) else { return true };
    judge(&history.calls(), &Scan::new(), &[]).iter().any(|objection| objection.rule == rule)
}

async fn is_caught(lie: Lie, least: usize, rule: Rule) {
    let verdict = verdict(lie, least, Some(rule)).await;
    assert!(verdict.lies >= least && verdict.found.contains_key(&rule), "{verdict:?}");
    assert!(verdict.unexplained.is_empty(), "{verdict:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_a_lie_there_is_no_objection() {
    let verdict = verdict(Lie::None, 0, None).await;
    assert!(verdict.lies == 0 && verdict.found.is_empty(), "{verdict:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_loses_one_job_in_a_thousand_is_caught() {
    is_caught(Lie::LosesJobs, 3, Rule::Lost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_delivers_50_ms_early_is_caught() {
    is_caught(Lie::Early, 100, Rule::Early).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_hands_one_reservation_to_two_is_caught() {
    is_caught(Lie::TwoHolders, 10, Rule::TwoHolders).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_forgets_a_finish_is_caught() {
    is_caught(Lie::ForgetsFinishes, 10, Rule::AfterTheEnd).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_miscounts_attempts_is_caught() {
    is_caught(Lie::MiscountsAttempts, 10, Rule::Attempts).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_delivers_expired_jobs_is_caught() {
    is_caught(Lie::DeliversExpired, 20, Rule::Expired).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_counts_an_uncounted_attempt_is_caught() {
    is_caught(Lie::CountsUncounted, 5, Rule::Attempts).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_keeps_the_old_body_is_caught() {
    is_caught(Lie::KeepsBodies, 5, Rule::OtherBody).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_leaves_a_moved_job_is_caught() {
    is_caught(Lie::LeavesMoved, 5, Rule::OtherTopic).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_forgets_where_dead_jobs_go_is_caught() {
    is_caught(Lie::ForgetsDeadTo, 1, Rule::NotMoved).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_forgets_a_pause_is_caught() {
    is_caught(Lie::ForgetsPauses, 5, Rule::Paused).await;
}
