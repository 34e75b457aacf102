//! Points in time and durations, as people write them on a command line.

use jiff::{civil::DateTime, tz::TimeZone};

use crate::job::{Millis, UnixMillis};

/// Reads a duration; a plain number is a number of seconds.
pub fn duration(text: &str) -> Result<Millis, String> {
    Millis::from_query(text).map_err(|error| error.to_string())
}

/// Reads RFC 3339 text, 13 digits of Unix milliseconds, or a date, a time and the name of a time
/// zone.
pub fn time(text: &str) -> Result<UnixMillis, String> {
    if let Ok(time) = UnixMillis::from_query(text) {
        return Ok(time);
    }
    let form = "must be RFC 3339 (2026-12-24T18:00:00+01:00) or a date, a time and a time zone \
                ('2026-12-24 18:00 Europe/Berlin')";
    let (local, zone) = text.trim().rsplit_once(' ').ok_or(form)?;
    let local: DateTime = local.trim().parse().map_err(|_| form)?;
    if zone.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(form.to_owned());
    }
    let zone = TimeZone::get(zone).map_err(|_| {
        format!(
            "names the time zone {zone:?}, which this system's time zone database \
             (/usr/share/zoneinfo) does not have; install the package tzdata, or use RFC 3339"
        )
    })?;
    let instant = local.to_zoned(zone).map_err(|_| form)?.timestamp().as_millisecond();
    u64::try_from(instant).map(UnixMillis::new).map_err(|_| "must be after 1970".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rfc_3339_or_local_time_with_a_zone() {
        for text in [
            "2026-12-24T18:00:00+01:00",
            "2026-12-24 18:00 Europe/Berlin",
            "2026-12-24 18:00:00 Europe/Berlin",
            "2026-12-24 17:00 UTC",
            "1798131600000",
        ] {
            assert_eq!(time(text), Ok(UnixMillis::new(1_798_131_600_000)), "{text}");
        }
        for (text, word) in [
            ("tomorrow", "RFC 3339"),
            ("2026-12-24 18:00", "RFC 3339"),
            ("2026-12-24 18:00 Europe/Nowhere", "Europe/Nowhere"),
        ] {
            assert!(time(text).is_err_and(|error| error.contains(word)), "{text}");
        }
    }
}
