//! A schedule as a line of an export, with its definition and state as stores keep them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

use super::job_line::check_at_most;
use crate::{
    job::{MAX_DURATION, Millis, ScheduleName, UnixMillis},
    schedules::Record,
    store::StoredSchedule,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct ScheduleLine {
    pub name: ScheduleName,
    #[serde(flatten)]
    pub record: Record,
}

impl ScheduleLine {
    /// Creates the line of a schedule; returns an error if this version cannot read the schedule.
    pub fn new(stored: StoredSchedule) -> Result<Self, String> {
        let fields: Map<String, Value> =
            serde_json::from_str(stored.json()?).map_err(|error| error.to_string())?;
        Self::read(stored.name, fields)
    }

    fn read(name: ScheduleName, fields: Map<String, Value>) -> Result<Self, String> {
        let given = Value::Object(fields);
        let record = Record::deserialize(&given).map_err(|error| error.to_string())?;
        let line = Self { name, record };
        let known = serde_json::to_value(&line.record).map_err(|error| error.to_string())?;
        if let Some(field) = unknown_field(&given, &known) {
            return Err(format!(
                "`{field}` is no field of a schedule, or has its default, which is never written"
            ));
        }
        line.check().map(|()| line)
    }

    /// Checks the rules that every schedule in a store obeys.
    fn check(&self) -> Result<(), String> {
        let Record { definition, paused, next, put_until, sought_after, last, last_run, .. } =
            &self.record;
        let timing = &definition.timing;
        let times = [
            ("next", *next),
            ("put_until", *put_until),
            ("sought_after", *sought_after),
            ("anchor", timing.anchor),
            ("start", timing.start),
            ("end", timing.end),
            ("instant", last.as_ref().map(|last| last.instant)),
            ("due_at", last.as_ref().map(|last| last.due_at)),
            ("instant", last_run.as_ref().map(|last| last.instant)),
            ("due_at", last_run.as_ref().map(|last| last.due_at)),
        ];
        let times = times.map(|(name, time)| (name, time.map(UnixMillis::get)));
        check_at_most(UnixMillis::LAST.get(), &times)?;
        let spans = [("every", timing.every), ("jitter", Some(definition.jitter))];
        let spans = spans.map(|(name, span)| (name, span.map(Millis::get)));
        check_at_most(MAX_DURATION.get(), &spans)?;
        serde_json::from_str::<&RawValue>(&definition.body)
            .map_err(|error| format!("`body` is not JSON: {error}"))?;
        if *paused && next.is_some() {
            return Err("a paused schedule must have no `next`".to_owned());
        }
        self.record.timing().map(drop)
    }
}

impl TryFrom<Map<String, Value>> for ScheduleLine {
    type Error = String;

    fn try_from(mut fields: Map<String, Value>) -> Result<Self, String> {
        let name = fields.remove("name").ok_or("missing field `name`")?;
        let name = ScheduleName::deserialize(name).map_err(|error| error.to_string())?;
        Self::read(name, fields)
    }
}

/// Returns a field of `given`, or of an object in it, that a reader has dropped, so that `known`
/// lacks it.
fn unknown_field<'a>(given: &'a Value, known: &Value) -> Option<&'a str> {
    let (Value::Object(given), Value::Object(known)) = (given, known) else { return None };
    given.iter().find_map(|(field, value)| match known.get(field) {
        Some(known) => unknown_field(value, known),
        None => (!value.is_null()).then_some(field.as_str()),
    })
}

#[cfg(test)]
mod tests;
