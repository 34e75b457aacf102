use ratatui::{Terminal, backend::TestBackend, crossterm::event::KeyModifiers};
use serde_json::json;

use super::*;

fn sample(put: u64) -> Sample {
    let since = |put: u64| json!({"put": put, "popped": 0, "finished": put, "dead": 0});
    let topic = |name: &str| {
        json!({
            "topic": name, "delayed": 12, "ready": 3, "reserved": 1, "dead": 2, "finished": 0,
            "paused": false, "next_due_at": "2026-01-01T00:00:30.000Z", "oldest_ready_age": 90.0,
            "since_start": since(put),
        })
    };
    let overview = json!({
        "as_of": "2026-01-01T00:00:00.000Z",
        "jobs": {"delayed": 24, "ready": 6, "reserved": 2, "dead": 4, "finished": 0},
        "due_not_delivered": 6, "oldest_ready_age": 90.0, "since_start": since(put),
        "lateness": [{"at": "2025-12-31T23:59:00.000Z", "popped": 1, "p50": 0.002, "p99": 0.03}],
        "last_errors": [{"topic": "mail", "error": "no \u{1b}[31m shop"}],
        "store": {"status": "ok"}, "version": "1.2.3",
        "oldest_ready": [topic("orders")], "most_delayed": [topic("mail"), topic("orders")],
        "most_dead": [],
    });
    let overview: Overview = serde_json::from_value(overview).expect("an overview");
    let topics = ["mail", "orders"].map(|name| serde_json::from_value(topic(name)).expect("one"));
    Sample { at: Instant::now(), overview: Some(overview), topics: topics.into(), due: vec![1, 5] }
}

fn shown(view: &mut View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| view.render(frame)).expect("drawn");
    terminal.backend().to_string()
}

fn view() -> View {
    let mut view = View::new("http://127.0.0.1:9277");
    view.take(Ok(sample(0)));
    std::thread::sleep(std::time::Duration::from_millis(1)); // a rate needs two times
    view.take(Ok(sample(5)));
    view
}

#[test]
fn a_wide_terminal_shows_topics_rates_due_jobs_and_errors() {
    let text = shown(&mut view(), 100, 30);
    for part in [
        "ok  http://127.0.0.1:9277  1.2.3",
        "6 ready  24 delayed  2 reserved  4 dead  0 finished",
        "put/s",
        "late 2 ms, p99 30 ms  6 due wait, up to 2m",
        "TOPIC   READY  DELAYED  RESERVED  DEAD  PUT/S   DONE/S  NEXT    OLDEST",
        "orders  3      12       1         2",
        "30s     2m",
        "mail: 6 due in the next",
        "mail: no [31m shop",
        "q quit",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

#[test]
fn a_terminal_of_40_columns_or_less_shows_the_topics() {
    let mut view = view();
    let text = shown(&mut view, 40, 12);
    for part in ["ok  http://127.0.0.1", "6 ready  24 delayed", "TOPIC   READY  DELAYED  DEAD"] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert!(shown(&mut view, 12, 6).contains("mail"));
    for (width, height) in [(1, 1), (40, 1), (1, 40), (300, 100)] {
        shown(&mut view, width, height);
    }
}

#[test]
fn a_server_that_is_unavailable_is_shown_until_it_answers() {
    let mut view = view();
    view.take(Err(Failure::Unreachable("connection refused".to_owned())));
    let text = shown(&mut view, 80, 24);
    assert!(text.contains("away for <1s  connection refused"), "{text}");
    assert!(text.contains("orders"), "the last sample is gone:\n{text}");
    view.take(Ok(sample(7)));
    assert!(shown(&mut view, 80, 24).contains("ok  http"));
}

#[test]
fn the_selected_topic_stays_selected() {
    let mut view = view();
    assert_eq!(view.selected(), Some("mail"));
    let key = |code| Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
    assert!(view.handle(&key(KeyCode::Down)));
    assert!(!view.handle(&key(KeyCode::Down)), "there is no other topic");
    let mut next = sample(8);
    next.topics.remove(0);
    view.take(Ok(next));
    assert_eq!(view.selected(), Some("orders"));
}
