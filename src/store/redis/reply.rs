//! Parsed replies of scripts.

mod job;
mod outcome;

use redis::Value;

use crate::{
    job::{Priority, Refusal, State, UnixMillis},
    store::{Counts, JobPosition, Reply, StoreError},
};

/// Values of one reply, read one after another.
pub struct Values(std::vec::IntoIter<Value>);

impl Values {
    pub fn new(reply: Value) -> Result<Self, StoreError> {
        match reply {
            Value::Array(values) => Ok(Self(values.into_iter())),
            other => Err(unexpected(&other)),
        }
    }

    /// Wraps a single value.
    pub fn one(reply: Value) -> Self {
        Self(vec![reply].into_iter())
    }

    /// Replaces a single text of numbers by these numbers.
    pub fn split_numbers(&mut self) -> Result<(), StoreError> {
        let [Value::BulkString(text)] = self.0.as_slice() else { return Ok(()) };
        let text = str::from_utf8(text).map_err(StoreError::unreadable)?;
        let numbers = text.split(' ').map(|number| number.parse().map(Value::Int));
        let numbers: Result<Vec<Value>, _> = numbers.collect();
        self.0 = numbers.map_err(StoreError::unreadable)?.into_iter();
        Ok(())
    }

    /// Returns the number of values that are left.
    pub fn left(&self) -> usize {
        self.0.len()
    }

    fn next(&mut self) -> Result<Value, StoreError> {
        self.0.next().ok_or_else(|| StoreError::unreadable("a reply with too few values"))
    }

    pub fn int(&mut self) -> Result<i64, StoreError> {
        match self.next()? {
            Value::Int(number) => Ok(number),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads a list, if the next value is one.
    pub fn list(&mut self) -> Option<Self> {
        let is_list = matches!(self.0.as_slice().first(), Some(Value::Array(_)));
        is_list.then(|| self.next().ok()).flatten().and_then(|list| Self::new(list).ok())
    }

    /// Reads a number, and the values behind it if it is the first of a list.
    pub fn number_and_more(&mut self) -> Result<(u64, Option<Self>), StoreError> {
        match self.next()? {
            list @ Value::Array(_) => {
                let mut values = Self::new(list)?;
                Ok((values.number()?, Some(values)))
            }
            number => Ok((Self::one(number).number()?, None)),
        }
    }

    pub fn number(&mut self) -> Result<u64, StoreError> {
        let number = self.int()?;
        u64::try_from(number).map_err(|_| unexpected(&Value::Int(number)))
    }

    pub fn millis(&mut self) -> Result<UnixMillis, StoreError> {
        self.number().map(UnixMillis::new)
    }

    fn small(&mut self) -> Result<u32, StoreError> {
        let number = self.int()?;
        u32::try_from(number).map_err(|_| unexpected(&Value::Int(number)))
    }

    pub fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        match self.next()? {
            Value::BulkString(bytes) => Ok(bytes),
            other => Err(unexpected(&other)),
        }
    }

    pub fn text(&mut self) -> Result<String, StoreError> {
        String::from_utf8(self.bytes()?).map_err(StoreError::unreadable)
    }

    /// Reads a text; returns `None` if it is nil.
    pub fn maybe_text(&mut self) -> Result<Option<String>, StoreError> {
        match self.next()? {
            Value::Nil => Ok(None),
            Value::BulkString(bytes) => {
                String::from_utf8(bytes).map(Some).map_err(StoreError::unreadable)
            }
            other => Err(unexpected(&other)),
        }
    }

    pub fn parsed<T: std::str::FromStr>(&mut self) -> Result<T, StoreError> {
        let text = self.text()?;
        text.parse().map_err(|_| StoreError::unreadable(format!("reply {text:?}")))
    }

    pub fn inner(&mut self) -> Result<Self, StoreError> {
        Self::new(self.next()?)
    }

    /// Reads a text, or a refusal instead of it.
    pub fn reply_text(&mut self) -> Result<Reply<String>, StoreError> {
        match self.next()? {
            Value::Int(code) => refusal(code).map(Err),
            Value::BulkString(bytes) => {
                String::from_utf8(bytes).map(Ok).map_err(StoreError::unreadable)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Reads a number, or a refusal instead of it.
    pub fn reply_number(&mut self) -> Result<Reply<u64>, StoreError> {
        let code = self.int()?;
        u64::try_from(code).map_or_else(|_| refusal(code).map(Err), |number| Ok(Ok(number)))
    }

    /// Reads a position of `shared/matching.lua`. If the score differs from the time, the position
    /// contains the score after a slash, which no id contains.
    pub fn position(&mut self) -> Result<Option<JobPosition>, StoreError> {
        let (id, at, score) = (self.text()?, self.int()?, self.text()?);
        let at = UnixMillis::new(u64::try_from(at).unwrap_or(0));
        let tie = if score.is_empty() { id } else { format!("{id}/{score}") };
        Ok((!tie.is_empty()).then_some(JobPosition { at, tie }))
    }

    pub fn counts(&mut self) -> Result<Counts, StoreError> {
        let mut counts = Counts::default();
        for state in State::ALL {
            *counts.of_mut(state) = self.number()?;
        }
        Ok(counts)
    }

    /// Reads a time; returns `None` for 0.
    pub fn maybe_millis(&mut self) -> Result<Option<UnixMillis>, StoreError> {
        Ok(Some(self.millis()?).filter(|at| at.get() > 0))
    }

    /// Reads a number from 0 to 9.
    pub fn priority(&mut self) -> Result<Priority, StoreError> {
        let number = self.int()?;
        let priority = u8::try_from(number).ok().and_then(Priority::new);
        priority.ok_or_else(|| unexpected(&Value::Int(number)))
    }
}

/// Returns the state of a code of `shared/basics.lua`.
pub fn state_of(code: i64) -> Result<State, StoreError> {
    let state = State::ALL.into_iter().find(|state| i64::from(state_code(*state)) == code);
    let unknown = || StoreError::unreadable(format!("state {code}: the job is in no set"));
    state.ok_or_else(unknown)
}

/// Returns the code of a state in `shared/basics.lua`.
pub fn state_code(state: State) -> u8 {
    state as u8 + 1
}

/// Returns the refusal of a code of `shared/refusals.lua`.
fn refusal(code: i64) -> Result<Refusal, StoreError> {
    match code {
        -1 => Ok(Refusal::NotFound),
        -2 => Ok(Refusal::Exists(None)),
        -3 => Ok(Refusal::ReservationLost),
        -4 => Ok(Refusal::NeverPopped),
        -7 => Ok(Refusal::DueTooFar),
        -9 => Ok(Refusal::Damaged),
        -10 => Ok(Refusal::Finished),
        ..-20 => state_of(-20 - code).map(Refusal::WrongState),
        other => Err(StoreError::unreadable(format!("refusal {other}"))),
    }
}

fn unexpected(value: &Value) -> StoreError {
    let mut text = format!("{value:?}");
    text.truncate(text.char_indices().nth(200).map_or(text.len(), |(end, _)| end));
    StoreError::unreadable(format!("an unexpected reply: {text}"))
}
