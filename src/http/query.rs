//! The query of a URL: named parameters, each at most once, none unknown.

use axum::http::Uri;

use super::problem::Problem;
use crate::job::{Millis, Reservation, State, UnixMillis};

pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    pub fn new(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default().as_bytes();
        Self { pairs: form_urlencoded::parse(query).into_owned().collect() }
    }

    /// Takes a parameter out.
    fn take(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let mut found = None;
        while let Some(at) = self.pairs.iter().position(|(key, _)| key == name) {
            if found.replace(self.pairs.swap_remove(at).1).is_some() {
                return Err(Problem::field(name, "must be given once"));
            }
        }
        Ok(found)
    }

    pub fn duration(&mut self, name: &str) -> Result<Option<Millis>, Problem> {
        let parse = |text: String| {
            Millis::from_query(&text).map_err(|error| Problem::field(name, error.to_string()))
        };
        self.take(name)?.map(parse).transpose()
    }

    pub fn number(&mut self, name: &str) -> Result<Option<u64>, Problem> {
        let parse = |text: String| {
            let refused = |_| Problem::field(name, format!("must be a whole number, got {text:?}"));
            text.parse().map_err(refused)
        };
        self.take(name)?.map(parse).transpose()
    }

    /// A time as requests have it: RFC 3339 or 13 digits of Unix milliseconds.
    pub fn time(&mut self, name: &str) -> Result<Option<UnixMillis>, Problem> {
        let parse = |text: String| {
            UnixMillis::from_query(&text).map_err(|error| Problem::field(name, error.to_string()))
        };
        self.take(name)?.map(parse).transpose()
    }

    pub fn text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        self.take(name)
    }

    /// A number from 1 to `max`.
    pub fn limit(&mut self, default: u64, max: u64) -> Result<u64, Problem> {
        match self.number("limit")?.unwrap_or(default) {
            limit if (1..=max).contains(&limit) => Ok(limit),
            limit => Err(Problem::field("limit", format!("must be from 1 to {max}, got {limit}"))),
        }
    }

    pub fn state(&mut self) -> Result<Option<State>, Problem> {
        let parse = |text: String| {
            let state = State::ALL.into_iter().find(|state| state.name() == text);
            let allowed = "must be delayed, ready, reserved or dead";
            state.ok_or_else(|| Problem::field("state", format!("{allowed}, got {text:?}")))
        };
        self.take("state")?.map(parse).transpose()
    }

    pub fn reservation(&mut self) -> Result<Option<Reservation>, Problem> {
        Ok(self.take("reservation")?.map(|text| Reservation::from_client(&text)))
    }

    /// Refuses parameters that the route does not know.
    pub fn reject_unknown(self) -> Result<(), Problem> {
        match self.pairs.first() {
            None => Ok(()),
            Some((name, _)) => Err(Problem::field(name, "is not a parameter of this route")),
        }
    }
}
