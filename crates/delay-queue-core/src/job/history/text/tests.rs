use proptest::{collection::vec, option, prelude::*};

use super::*;
use crate::job::{Nonce, history::MAX_HISTORY_ERROR_BYTES};

fn consumers() -> impl Strategy<Value = Option<Consumer>> {
    option::of("[A-Za-z0-9._:@/-]{1,64}".prop_map(|name| name.parse().expect("a name")))
}

fn pasts() -> impl Strategy<Value = PastAttempt> {
    let outcomes = (0..LETTERS.len()).prop_map(|n| LETTERS[n].0);
    let errors = option::of(any::<String>()).prop_map(|error| error.as_deref().and_then(cut_error));
    let times = any::<[u64; 2]>().prop_map(|times| times.map(UnixMillis::new));
    (any::<u32>(), times, outcomes, errors, consumers()).prop_map(
        |(attempt, [started_at, ended_at], outcome, error, consumer)| PastAttempt {
            attempt,
            started_at,
            ended_at,
            outcome,
            error,
            consumer,
        },
    )
}

fn holds() -> impl Strategy<Value = Option<Hold>> {
    let hold = (any::<u64>(), option::of(any::<u64>()), consumers());
    option::of(hold.prop_map(|(random, started_at, consumer)| Hold {
        reservation: Nonce::new(random).reservation(0),
        started_at: started_at.map(UnixMillis::new),
        consumer,
    }))
}

proptest! {
    #[test]
    fn a_history_survives_its_text(hold in holds(), attempts in vec(pasts(), 0..=MAX_HISTORY)) {
        let history = History { hold, attempts };
        prop_assert_eq!(History::parse(&history.to_string()), Some(history));
    }

    #[test]
    fn any_text_is_parsed_without_a_panic(text: String) {
        let _ = History::parse(&text);
        let _ = History::parse(&format!("- - !\n{text}"));
    }
}

#[test]
fn the_text_is_pinned_because_stores_have_it() {
    let history = History {
        hold: Some(Hold {
            reservation: "0000000000a10800".parse().expect("a reservation"),
            started_at: Some(UnixMillis::new(7)),
            consumer: Some("a@b".parse().expect("a name")),
        }),
        attempts: vec![PastAttempt {
            attempt: 3,
            started_at: UnixMillis::new(1),
            ended_at: UnixMillis::new(2),
            outcome: AttemptOutcome::Buried,
            error: Some("two\nlines".to_owned()),
            consumer: None,
        }],
    };
    assert_eq!(history.to_string(), "0000000000a10800 7 a@b\n3 1 2 b ! 9 two\nlines\n");
    assert_eq!(History::default().to_string(), "- - !\n");
    let letters = [
        (AttemptOutcome::Released, 'r'),
        (AttemptOutcome::ReleasedUncounted, 'u'),
        (AttemptOutcome::TimedOut, 'e'),
        (AttemptOutcome::Buried, 'b'),
        (AttemptOutcome::Finished, 'f'),
    ];
    assert_eq!(LETTERS, letters);
}

#[test]
fn more_attempts_than_a_history_keeps_are_damage() {
    let text = |count: usize| format!("- - !\n{}", "1 1 2 r ! 0 \n".repeat(count));
    assert_eq!(History::parse(&text(10)).expect("a history").attempts.len(), 10);
    assert_eq!(History::parse(&text(11)), None);
}

#[test]
fn an_error_is_cut_between_characters() {
    let cut = |text: &str| cut_error(text).map(|error| error.len());
    assert_eq!(cut(""), None);
    assert_eq!(cut(&"a".repeat(256)), Some(256));
    assert_eq!(cut(&"a".repeat(300)), Some(MAX_HISTORY_ERROR_BYTES));
    assert_eq!(cut(&format!("{}é", "a".repeat(255))), Some(255));
    assert_eq!(cut(&format!("{}é", "a".repeat(254))), Some(256));
    assert_eq!(cut(&"🦀".repeat(100)), Some(256));
    assert_eq!(cut(&format!("a{}", "🦀".repeat(100))), Some(253));
}
