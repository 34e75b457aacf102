//! Time zones of the IANA database, from the copy in the program.

use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::invalid::quoted;

/// Minimum likeness of a suggested name, from 0 (entirely different) to 1 (equal).
const MIN_LIKENESS: f64 = 0.6;

/// Returns the zone of a name, whose case does not matter.
///
/// # Errors
/// There is no such zone. The text says what is allowed.
pub fn named(name: &str) -> Result<TimeZone, String> {
    let zone = TimeZoneDatabase::bundled().get(name).ok().filter(|zone| !zone.is_unknown());
    zone.ok_or_else(|| {
        let hint = nearest(name).map_or_else(String::new, |known| format!("; did you mean {known:?}?"));
        format!(
            "must be a time zone of the IANA database, as in \"Europe/Berlin\" or \"UTC\"; got {}{hint}",
            quoted(name)
        )
    })
}

/// Returns the name that is most similar to `given`, unless even that differs too much.
fn nearest(given: &str) -> Option<String> {
    // Longer texts resemble no name, and would take long to compare.
    if given.len() > 64 {
        return None;
    }
    let given = given.to_lowercase().replace(' ', "_");
    let database = TimeZoneDatabase::bundled();
    let likeness = |name: String| {
        let lower = name.to_lowercase();
        // Many leave out the continent.
        let city = lower.rsplit('/').next().unwrap_or(&lower);
        let whole = strsim::normalized_damerau_levenshtein(&given, &lower);
        (whole.max(strsim::normalized_damerau_levenshtein(&given, city)), name)
    };
    let all = database.available().map(|name| likeness(name.as_str().to_owned()));
    let best = all.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(likeness, _)| *likeness >= MIN_LIKENESS).map(|(_, name)| name)
}
