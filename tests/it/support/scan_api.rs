//! Contents of any store, read from a server's lists of jobs and counts of topics.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::scan::{STATES, Scan};

/// Maximum time for which states may differ because jobs fall due and TTRs end meanwhile.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Reads the jobs of these topics from the server's lists.
pub async fn scan_api(base: &str, topics: &[&str]) -> Scan {
    let mut scan = Scan::new();
    for topic in topics {
        for state in STATES {
            let list = format!("{base}/topics/{topic}/jobs?state={state}&limit=1000");
            let mut cursor = Some(String::new());
            while let Some(from) = cursor {
                let page = get(&format!("{list}{from}")).await;
                assert!(page["damaged"].is_null(), "{page}");
                for job in page["jobs"].as_array().expect("jobs") {
                    let id = job["id"].as_str().expect("an id").to_owned();
                    let stored = scan.entry(id).or_default();
                    // The load's bodies have no white space, so this text equals the stored one.
                    stored.bodies.push(job["body"].to_string());
                    stored.sets.push(format!(":{state}:{topic}"));
                    stored.attempts += usize::from(job["attempt"] != 0);
                    // A job that has moved keeps its error.
                    stored.is_expired |= state == "dead" && job["error"] == "expired";
                }
                cursor = page["cursor"].as_str().map(|cursor| format!("&cursor={cursor}"));
            }
        }
    }
    scan
}

/// Compares the counts of each topic with the scan.
pub async fn counters_equal(base: &str, scan: &Scan, topics: &[&str]) -> Result<(), String> {
    for topic in topics {
        let counts = get(&format!("{base}/topics/{topic}")).await;
        for state in STATES {
            let set = format!(":{state}:{topic}");
            let all = scan.values().flat_map(|stored| &stored.sets);
            let scanned = all.filter(|name| name.ends_with(&set)).count();
            if counts[state] != scanned {
                let count = &counts[state];
                return Err(format!("{topic}: counted {count} {state}, scanned {scanned}"));
            }
        }
    }
    Ok(())
}

/// Compares two scans of different stores, which may have different tags in the names of sets.
pub fn scans_equal(one: &Scan, other: &Scan) -> Result<(), String> {
    let ids = one.keys().chain(other.keys());
    for id in ids {
        let told = |scan: &Scan| {
            scan.get(id).map(|stored| {
                let mut stored = stored.clone();
                for set in &mut stored.sets {
                    let tag = set.find('}').map_or(0, |end| end + 1);
                    set.drain(..tag);
                }
                stored
            })
        };
        let (one, other) = (told(one), told(other));
        if one != other {
            return Err(format!("{id}: {one:?} and {other:?}"));
        }
    }
    Ok(())
}

/// Waits until the server's lists and counts agree with the scan that `read` makes of the store,
/// and returns this scan. No client may send requests meanwhile.
///
/// # Panics
/// If they still differ after all due jobs have been promoted.
pub async fn scan_agreed(base: &str, topics: &[&str], read: impl Fn() -> Scan) -> Scan {
    let end = Instant::now() + SETTLE_TIMEOUT;
    loop {
        let scan = tokio::task::block_in_place(&read);
        let lists = scans_equal(&scan, &scan_api(base, topics).await);
        let agreed = match lists {
            Ok(()) => counters_equal(base, &scan, topics).await,
            differs => differs,
        };
        let Err(differs) = agreed else { return scan };
        assert!(
            Instant::now() < end,
            "the store's contents and the server's lists differ: {differs}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await; // timers move jobs meanwhile
    }
}

async fn get(url: &str) -> Value {
    let answer = crate::support::http::get(url).await.expect("an answer");
    assert_eq!(answer.status(), 200, "{url}");
    answer.json().await.expect("JSON")
}
