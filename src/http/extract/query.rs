//! The query of a URL. Each parameter may occur once, and unknown parameters are refused.

use axum::http::Uri;

use crate::{
    http::problem::Problem,
    job::{Consumer, ConsumerError, InvalidStates, Millis, State, States, UnixMillis},
    suggest,
};

pub struct Query {
    pairs: Vec<(String, String)>,
    /// Names of the parameters that the route has read so far.
    known: Vec<&'static str>,
}

impl Query {
    pub fn new(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default().as_bytes();
        let pairs = form_urlencoded::parse(query).into_owned().collect();
        Self { pairs, known: Vec::new() }
    }

    /// Removes a parameter and returns its value.
    fn take(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        self.known.push(name);
        let mut found = None;
        while let Some(at) = self.pairs.iter().position(|(key, _)| key == name) {
            if found.replace(self.pairs.swap_remove(at).1).is_some() {
                return Err(Problem::field(name, "must be given once"));
            }
        }
        Ok(found)
    }

    pub fn duration(&mut self, name: &'static str) -> Result<Option<Millis>, Problem> {
        let parse = |text: String| {
            Millis::from_query(&text).map_err(|error| Problem::field(name, error.to_string()))
        };
        self.take(name)?.map(parse).transpose()
    }

    pub fn number(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        let parse = |text: String| {
            let refused = |_| Problem::field(name, format!("must be a whole number, got {text:?}"));
            text.parse().map_err(refused)
        };
        self.take(name)?.map(parse).transpose()
    }

    /// Parses a time: RFC 3339 or 13 digits of Unix milliseconds.
    pub fn time(&mut self, name: &'static str) -> Result<Option<UnixMillis>, Problem> {
        let parse = |text: String| {
            UnixMillis::from_query(&text).map_err(|error| Problem::field(name, error.to_string()))
        };
        self.take(name)?.map(parse).transpose()
    }

    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        self.take(name)
    }

    /// Parses `limit`, a number from 1 to `max`.
    pub fn limit(&mut self, default: u64, max: u64) -> Result<u64, Problem> {
        match self.number("limit")?.unwrap_or(default) {
            limit if (1..=max).contains(&limit) => Ok(limit),
            limit => Err(Problem::field("limit", format!("must be from 1 to {max}, got {limit}"))),
        }
    }

    pub fn state(&mut self) -> Result<Option<State>, Problem> {
        let parse = |text: String| {
            let state = State::ALL.into_iter().find(|state| state.name() == text);
            let allowed = "must be delayed, ready, reserved, dead or finished";
            state.ok_or_else(|| Problem::field("state", format!("{allowed}, got {text:?}")))
        };
        self.take("state")?.map(parse).transpose()
    }

    /// Parses `state` as a set: `delayed,ready`.
    pub fn states(&mut self) -> Result<Option<States>, Problem> {
        let parse = |text: String| {
            text.parse().map_err(|error: InvalidStates| Problem::field("state", error.to_string()))
        };
        self.take("state")?.map(parse).transpose()
    }

    pub fn consumer(&mut self) -> Result<Option<Consumer>, Problem> {
        let parse = |text: String| {
            text.parse()
                .map_err(|error: ConsumerError| Problem::field("consumer", error.to_string()))
        };
        self.take("consumer")?.map(parse).transpose()
    }

    pub fn reservation(&mut self) -> Result<Option<String>, Problem> {
        self.take("reservation")
    }

    /// Refuses parameters that the route has not read. Call it after reading all others.
    pub fn reject_unknown(self) -> Result<(), Problem> {
        let Some((given, _)) = self.pairs.first() else { return Ok(()) };
        let allowed = match (suggest::nearest(given, self.known.iter().copied()), &self.known[..]) {
            (Some(nearest), _) => format!("did you mean `{nearest}`?"),
            (None, []) => "it takes none".to_owned(),
            (None, known) => format!("it takes {}", known.join(", ")),
        };
        Err(Problem::field(given, format!("is not a parameter of this route; {allowed}")))
    }
}
