//! Form of a finished job in a file: `body` has a letter for its outcome, with which no JSON
//! begins, and the JSON of its result. The row in `attempts` has the time of its end as `died_at`,
//! and its due time; `pool` has the end as due time, so that a job whose attempt is lost is never
//! taken for one that is not due yet. Persisted: must stay readable.

use bytes::Bytes;

use crate::job::Outcome;

const OUTCOMES: [(u8, Outcome); 3] =
    [(b'F', Outcome::Finished), (b'R', Outcome::ResultDropped), (b'D', Outcome::Deleted)];

/// Formats the body of a finished job.
pub fn body(outcome: Outcome, result: Option<&Bytes>) -> Bytes {
    let letter = OUTCOMES.iter().filter(|(_, of)| *of == outcome).map(|(letter, _)| *letter);
    letter.chain(result.into_iter().flatten().copied()).collect()
}

/// Inverts [`body`]; returns `None` for the body of any other job.
pub fn parse(body: &Bytes) -> Option<(Outcome, Option<Bytes>)> {
    let letter = body.first()?;
    let (_, outcome) = OUTCOMES.iter().find(|(of, _)| of == letter)?;
    Some((*outcome, Some(body.slice(1..)).filter(|result| !result.is_empty())))
}

/// Returns whether a body is that of a finished job.
pub fn is_ended(body: &[u8]) -> bool {
    body.first().is_some_and(|letter| OUTCOMES.iter().any(|(of, _)| of == letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_is_read_as_it_was_written_and_is_no_json() {
        for (_, outcome) in OUTCOMES {
            for result in [None, Some(Bytes::from_static(b"{\"a\":1}"))] {
                let body = body(outcome, result.as_ref());
                assert_eq!(parse(&body), Some((outcome, result)));
                assert!(is_ended(&body) && serde_json::from_slice::<()>(&body).is_err());
            }
        }
        for json in ["null", "false", "\"F\"", "7", "[]", ""] {
            assert_eq!(parse(&Bytes::from_static(json.as_bytes())), None);
        }
    }
}
