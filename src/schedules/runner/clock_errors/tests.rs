use super::*;

const NOW: UnixMillis = UnixMillis::new(1_800_000_000_000);
const MINUTE: u64 = 60_000;

fn stored(state: &str) -> StoredSchedule {
    let text = format!(r#"{{"topic":"t","every":60.0,"body":"null"{state}}}"#);
    StoredSchedule { name: "s".parse().expect("a name"), text }
}

fn time(millis: u64) -> String {
    UnixMillis::new(millis).to_string()
}

/// Returns the corrected record of a schedule with this next instant and these other fields of its
/// state, and when a server looks at it.
fn corrected(next: u64, state: &str) -> Option<(Record, Option<UnixMillis>)> {
    let stored = stored(&format!(r#","next":"{}"{state}"#, time(next)));
    let (change, _) = correction(stored.clone(), NOW)?;
    let NewSchedule { text, next_at } = change.new.expect("it stays");
    Some((Record::parse(&StoredSchedule { text, ..stored }).expect("a record"), next_at))
}

#[test]
fn a_schedule_goes_on_if_the_clock_was_more_than_a_minute_ahead() {
    let first = Some(UnixMillis::new(NOW.get() / MINUTE * MINUTE + MINUTE));
    let month = NOW.get() + 30 * 86_400_000;
    for field in ["put_until", "sought_after"] {
        for ahead in [month, NOW.get() + MINUTE + 1] {
            let state = format!(r#","{field}":"{}""#, time(ahead));
            let (record, look_at) = corrected(month, &state).expect("a correction");
            assert_eq!((record.next, look_at, record.put_until), (first, first, None));
            assert!(!record.is_ahead_of(NOW));
        }
        for right in [NOW.get() - 1, NOW.get() + MINUTE] {
            let state = format!(r#","{field}":"{}""#, time(right));
            assert_eq!(corrected(month, &state), None, "{field} {right}");
        }
    }
}

#[test]
fn a_paused_schedule_forgets_the_time_and_stays_paused() {
    let ahead = time(NOW.get() + 2 * MINUTE);
    let stored = stored(&format!(r#","paused":true,"put_until":"{ahead}""#));
    let (change, _) = correction(stored.clone(), NOW).expect("a correction");
    let NewSchedule { text, next_at } = change.new.expect("it stays");
    assert_eq!(next_at, None);
    let record = Record::parse(&StoredSchedule { text, ..stored }).expect("a record");
    assert_eq!((record.paused, record.next, record.put_until), (true, None, None));
}

#[test]
fn an_overdue_or_unreadable_schedule_is_looked_at_again() {
    let overdue = NOW.before(crate::job::Millis::new(MINUTE));
    let (record, look_at) = corrected(overdue.get(), "").expect("a correction");
    assert_eq!((record.next, look_at), (Some(overdue), Some(overdue)));
    let unreadable = StoredSchedule { text: "{}".to_owned(), ..stored("") };
    let (change, ahead) = correction(unreadable, NOW).expect("a correction");
    assert_eq!(ahead, None);
    assert_eq!(change.new.expect("it stays").next_at, Some(NOW));
}
