//! Reports: results of the jobs of a batch in the body of its answer.

use std::{collections::HashMap, fmt};

use guarded_client::Answer;
use http::{StatusCode, header::CONTENT_TYPE};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::job::JobId;

/// Report in the body of a successful answer to a batch.
pub enum Report {
    /// It is no report: the endpoint accepted all jobs.
    Absent,
    /// Results by job; the endpoint did not accept other jobs.
    Results(HashMap<JobId, JobResult>),
    /// The report cannot be read, for this reason: it accepts no job.
    Unusable(String),
}

/// The result of a job in a report.
#[derive(Deserialize)]
pub struct JobResult {
    id: JobId,
    pub status: u16,
    pub error: Option<String>,
}

impl Report {
    /// Reads the report in an answer. A report that breaks off has the results before its end,
    /// unless the endpoint sent all of it: then it is not JSON.
    pub fn read(answer: &Answer) -> Self {
        if !is_report(answer) {
            return match answer.is_whole || !answer.body.is_empty() {
                true => Self::Absent,
                false => Self::Unusable("the answer broke off".to_owned()),
            };
        }
        let mut results = None;
        let end = text(answer).and_then(|text| {
            let mut reader = serde_json::Deserializer::from_str(text);
            let read = Body(&mut results).deserialize(&mut reader).and_then(|()| reader.end());
            match read {
                Err(error) if answer.is_whole || !error.is_eof() => Err(error.to_string()),
                _ => Ok(()),
            }
        });
        match (end, results) {
            (Ok(()), Some(results)) => Self::Results(results),
            (Ok(()), None) if answer.is_whole => {
                Self::Unusable("the report in the answer lacks `results`".to_owned())
            }
            (Ok(()), None) => Self::Unusable("the answer was too long or broke off".to_owned()),
            (Err(error), _) => {
                Self::Unusable(format!("the report in the answer is no JSON: {error}"))
            }
        }
    }
}

/// Returns whether the body of an answer is to be read as a report: by its type or its first
/// character, which may follow a byte order mark.
fn is_report(answer: &Answer) -> bool {
    let is_skipped = |byte: &&u8| {
        matches!(byte, 0 | 0xEF | 0xBB | 0xBF | 0xFE | 0xFF) || byte.is_ascii_whitespace()
    };
    let first = answer.body.iter().find(|byte| !is_skipped(byte));
    matches!(first, Some(b'{' | b'['))
        || (has_json_type(answer) && answer.status != StatusCode::NO_CONTENT)
}

fn has_json_type(answer: &Answer) -> bool {
    answer.headers.get_all(CONTENT_TYPE).iter().any(|value| {
        let text = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
        let essence = text.split(';').next().unwrap_or_default().trim();
        essence.ends_with("/json") || essence.ends_with("+json")
    })
}

/// Returns the text of a body, without a byte order mark.
fn text(answer: &Answer) -> Result<&str, String> {
    let body = answer.body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&answer.body);
    match std::str::from_utf8(body) {
        Ok(text) => Ok(text),
        // The answer broke off within a character.
        Err(error) if !answer.is_whole && error.error_len().is_none() => {
            std::str::from_utf8(&body[..error.valid_up_to()]).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a report into its results, which stay if it breaks off.
struct Body<'a>(&'a mut Option<HashMap<JobId, JobResult>>);

impl<'de> DeserializeSeed<'de> for Body<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Body<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `results`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if name != "results" {
                map.next_value::<IgnoredAny>()?;
            } else if self.0.is_some() {
                return Err(A::Error::custom("it has `results` twice"));
            } else {
                map.next_value_seed(Results(self.0.insert(HashMap::new())))?;
            }
        }
        Ok(())
    }
}

struct Results<'a>(&'a mut HashMap<JobId, JobResult>);

impl<'de> DeserializeSeed<'de> for Results<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Results<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`results` to be a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(item) = list.next_element::<&RawValue>()? {
            // A list would be read as the fields in order.
            let is_object = item.get().starts_with('{');
            let Some(one) =
                serde_json::from_str::<JobResult>(item.get()).ok().filter(|_| is_object)
            else {
                continue;
            };
            // If a job has two results, one that does not accept it decides.
            let other = self.0.get(&one.id);
            if other.is_none_or(|other| (200..300).contains(&other.status)) {
                self.0.insert(one.id.clone(), one);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
