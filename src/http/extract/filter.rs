//! Parameters that choose jobs of a topic: its lists, kicks and purges take the same.

use super::query::Query;
use crate::{
    http::problem::Problem,
    job::State,
    store::{JobFilter, Period},
};

/// Maximum length in bytes of a text that ids or errors must contain.
pub const MAX_FILTER_BYTES: usize = 256;

impl Query {
    /// Parses the filter of jobs of a state, or of any state if none is given.
    pub fn filter(&mut self, state: Option<State>) -> Result<JobFilter, Problem> {
        let filter = JobFilter {
            error_contains: self.part("error_contains")?,
            id_contains: self.part("id_contains")?,
            died: self.period("died_after", "died_before")?,
            due: self.period("due_after", "due_before")?,
        };
        let dead_only = "is for dead jobs: it needs `state=dead`";
        let not_dead = "is for jobs that are not dead: it needs `state=delayed`, `ready`, `reserved` or `finished`";
        let fits_due = state.is_some_and(|state| state != State::Dead);
        for (name, given, fits, detail) in [
            ("died_after", filter.died.from, state == Some(State::Dead), dead_only),
            ("died_before", filter.died.before, state == Some(State::Dead), dead_only),
            ("due_after", filter.due.from, fits_due, not_dead),
            ("due_before", filter.due.before, fits_due, not_dead),
        ] {
            if given.is_some() && !fits {
                let state = state.map_or("none", State::name);
                return Err(Problem::field(name, format!("{detail}, got {state}")));
            }
        }
        Ok(filter)
    }

    /// Parses `true` or `false`; by default false.
    pub fn flag(&mut self, name: &'static str) -> Result<bool, Problem> {
        match self.text(name)?.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(given) => {
                Err(Problem::field(name, format!("must be true or false, got {given:?}")))
            }
        }
    }

    fn period(&mut self, from: &'static str, before: &'static str) -> Result<Period, Problem> {
        Ok(Period { from: self.time(from)?, before: self.time(before)? })
    }

    fn part(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        let text = self.text(name)?;
        if let Some(length) = text.as_ref().map(String::len)
            && !(1..=MAX_FILTER_BYTES).contains(&length)
        {
            let detail = format!("must have 1 to {MAX_FILTER_BYTES} bytes, got {length}");
            return Err(Problem::field(name, detail));
        }
        // The query has been decoded: this may stand for bytes that are no text.
        if text.as_ref().is_some_and(|text| text.contains(char::REPLACEMENT_CHARACTER)) {
            return Err(Problem::field(name, "must be UTF-8 text without U+FFFD"));
        }
        Ok(text)
    }
}

/// Describes a filter for the audit log; empty if it is empty.
pub fn described(filter: &JobFilter) -> String {
    let JobFilter { error_contains, id_contains, died, due } = filter;
    let texts = [("error_contains", error_contains), ("id_contains", id_contains)];
    let texts = texts.map(|(name, text)| text.as_ref().map(|text| format!(" {name}={text:?}")));
    let times = [
        ("died_after", died.from),
        ("died_before", died.before),
        ("due_after", due.from),
        ("due_before", due.before),
    ];
    let times = times.map(|(name, at)| at.map(|at| format!(" {name}={at}")));
    texts.into_iter().chain(times).flatten().collect()
}

#[cfg(test)]
mod tests {
    use axum::http::Uri;

    use super::*;
    use crate::job::UnixMillis;

    fn parsed(query: &str, state: Option<State>) -> Result<JobFilter, (Option<String>, String)> {
        let uri: Uri = format!("/?{query}").parse().expect("a uri");
        let mut query = Query::new(&uri);
        let filter = query.filter(state).map_err(|problem| (problem.field, problem.detail))?;
        query.reject_unknown().map_err(|problem| (problem.field, problem.detail))?;
        Ok(filter)
    }

    #[test]
    fn a_filter_has_the_texts_and_times_of_the_query() {
        let query = "error_contains=no%20shop&id_contains=a%3a&died_after=1900000000000";
        let filter = parsed(query, Some(State::Dead)).expect("a filter");
        let died = Period { from: Some(UnixMillis::new(1_900_000_000_000)), before: None };
        assert_eq!((filter.error_contains.as_deref(), filter.died), (Some("no shop"), died));
        assert_eq!(filter.id_contains.as_deref(), Some("a:"));
        assert_eq!(
            described(&filter),
            " error_contains=\"no shop\" id_contains=\"a:\" died_after=2030-03-17T17:46:40.000Z"
        );
        assert_eq!(parsed("", None), Ok(JobFilter::default()));
        let due = parsed("due_before=1900000000000", Some(State::Finished)).expect("a filter");
        assert!(due.examines(State::Finished) && !due.examines(State::Ready));
    }

    #[test]
    fn each_bad_filter_is_refused_by_its_name() {
        let long = format!("id_contains={}", "x".repeat(257));
        let cases = [
            ("error_contains=%ff", Some(State::Dead), "error_contains", "UTF-8"),
            ("error_contains=", Some(State::Dead), "error_contains", "got 0"),
            (long.as_str(), None, "id_contains", "1 to 256 bytes, got 257"),
            ("id_contains=a&id_contains=a", None, "id_contains", "once"),
            ("died_after=soon", Some(State::Dead), "died_after", "soon"),
            ("died_before=1900000000000", None, "died_before", "state=dead"),
            ("died_before=1900000000000", Some(State::Ready), "died_before", "got ready"),
            ("due_after=1900000000000", Some(State::Dead), "due_after", "got dead"),
            ("due_after=1900000000000", None, "due_after", "got none"),
        ];
        for (query, state, field, detail) in cases {
            let (refused, text) = parsed(query, state).expect_err(query);
            assert_eq!(refused.as_deref(), Some(field), "{query}");
            assert!(text.contains(detail), "{query}: {text}");
        }
        assert!(parsed(&format!("id_contains={}", "x".repeat(256)), None).is_ok());
    }
}
