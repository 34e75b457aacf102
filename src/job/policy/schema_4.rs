//! Policies in the form of schema 4, which a job keeps until a new policy is written for it:
//! `<TTR>,<max_attempts>,<retention>[/<traceparent>],<backoff>`.

use std::str::FromStr;

use super::Policy;
use crate::job::duration::Millis;

/// The parts of a policy text of schema 4; an empty part stands for the standard value.
#[derive(Debug, Clone, Copy)]
pub struct PolicyOfSchema4<'a> {
    pub ttr: &'a str,
    pub max_attempts: &'a str,
    pub dead_retention: &'a str,
    pub traceparent: Option<&'a str>,
    pub backoff: &'a str,
}

impl<'a> PolicyOfSchema4<'a> {
    /// Splits a text; returns `None` if it does not have this form.
    pub fn split(text: &'a str) -> Option<Self> {
        if !text.starts_with(|first: char| matches!(first, ',' | '-' | '0'..='9')) {
            return None;
        }
        let mut parts = text.splitn(4, ',');
        let (ttr, max_attempts, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let backoff = parts.next()?;
        let (dead_retention, traceparent) = match rest.split_once('/') {
            None => (rest, None),
            Some((retention, traceparent)) => (retention, Some(traceparent)),
        };
        Some(Self { ttr, max_attempts, dead_retention, traceparent, backoff })
    }

    /// Returns the policy, or `None` if a part is damaged.
    pub fn policy(self) -> Option<Policy> {
        let standard = Policy::STANDARD;
        let backoff = Some(self.backoff).filter(|text| !text.is_empty());
        Some(Policy {
            ttr: Millis::new(parse_or(self.ttr, standard.ttr.get())?),
            max_attempts: parse_or(self.max_attempts, standard.max_attempts)?,
            backoff: backoff.map(str::parse).transpose().ok()?,
            dead_retention: Millis::new(parse_or(
                self.dead_retention,
                standard.dead_retention.get(),
            )?),
            traceparent: self.traceparent.map(str::parse).transpose().ok()?,
            ..standard
        })
    }
}

/// Parses a value; an empty one is `standard`.
fn parse_or<T: FromStr>(text: &str, standard: T) -> Option<T> {
    if text.is_empty() { Some(standard) } else { text.parse().ok() }
}
