//! Tests that invalid schedules of an export are refused by field.

use super::*;

const SOUND: &str = r#"{"name":"n","topic":"t","cron":"0 9 * * *","body":"null","policy":{"ttr":9.0},
    "next":"2026-01-31T09:00:00.000Z","last":{"instant":"2026-01-30T09:00:00.000Z",
    "due_at":"2026-01-30T09:00:00.000Z"}}"#;

fn refusal(text: &str) -> String {
    let refused = serde_json::from_str::<ScheduleLine>(text).map(|_| ());
    refused.expect_err(text).to_string()
}

#[test]
fn a_schedule_is_read_with_its_state() {
    let line: ScheduleLine = serde_json::from_str(SOUND).expect("a schedule");
    assert_eq!(line.record.next, Some("2026-01-31T09:00:00Z".parse().expect("a time")));
    let text = line.record.stored().expect("JSON").text;
    assert_eq!(ScheduleLine::new(StoredSchedule { name: line.name.clone(), text }), Ok(line));
}

#[test]
fn a_wrong_schedule_is_refused_by_field() {
    for (old, new, words) in [
        (r#""name":"n","#, "", "missing field `name`"),
        (r#""name":"n""#, r#""name":"a b""#, "must be 1 to 107 characters"),
        (r#""topic":"t","#, "", "missing field `topic`"),
        (r#""topic":"t""#, r#""topic":"t","color":3"#, "`color` is no field"),
        (r#"{"ttr":9.0}"#, r#"{"ttr":9.0,"hue":3}"#, "`hue` is no field"),
        (r#""body":"null""#, r#""body":"{""#, "`body` is not JSON"),
        ("0 9 * * *", "0 9 * *", "`cron` "),
        (r#""topic""#, r#""timezone":"Mars/Base","topic""#, "`timezone` "),
        (r#""topic""#, r#""every":60.0,"topic""#, "`every` "),
        (r#""topic""#, r#""paused":true,"topic""#, "a paused schedule must have no `next`"),
        ("2026-01-31T09", "9999-01-31T09", "`next` must be at most"),
    ] {
        let text = SOUND.replacen(old, new, 1);
        assert_ne!(text, SOUND, "{old}");
        assert!(refusal(&text).contains(words), "{text}: {}", refusal(&text));
    }
}
