use std::time::Duration;

use crate::{Fields, Timing};

/// 2026-01-01T00:00:00Z.
const NOW: u64 = 1_767_225_600_000;

fn fields(cron: &str) -> Fields {
    Fields { cron: Some(cron.into()), ..Fields::default() }
}

fn seconds(every: f64) -> Fields {
    Fields { every: Some(Duration::from_secs_f64(every)), ..Fields::default() }
}

/// Checks the field of a refusal and words of its message.
#[track_caller]
fn check(fields: &Fields, field: &str, words: &[&str]) {
    let refused = Timing::parse(fields, NOW).unwrap_err();
    assert_eq!(refused.field, field, "{refused}");
    for word in words {
        assert!(refused.message.contains(word), "{refused} lacks {word:?}");
    }
}

#[test]
fn exactly_one_of_cron_and_every_is_required() {
    check(&Fields::default(), "cron", &["0 9 * * MON-FRI"]);
    check(&Fields { cron: Some("@daily".into()), ..seconds(1.0) }, "every", &["90s"]);
}

#[test]
fn every_is_bounded_and_in_whole_milliseconds() {
    for every in [0.0, 0.999, 1.000_5, 315_576_000.001] {
        check(&seconds(every), "every", &["1 second to ten years", "got"]);
    }
    for every in [1.0, 1.001, 315_576_000.0] {
        assert!(Timing::parse(&seconds(every), NOW).is_ok(), "{every}");
    }
}

#[test]
fn fields_of_the_other_rule_are_refused() {
    check(&Fields { anchor: Some(0), ..fields("@daily") }, "anchor", &["`every`"]);
    check(&Fields { timezone: Some("UTC".into()), ..seconds(1.0) }, "timezone", &["`cron`"]);
}

#[test]
fn an_unknown_zone_is_refused_with_the_nearest_one() {
    let zoned = |zone: &str| Fields { timezone: Some(zone.into()), ..fields("@daily") };
    check(
        &zoned("Europe/Berln"),
        "timezone",
        &["\"Europe/Berln\"", "did you mean \"Europe/Berlin\""],
    );
    check(&zoned("new york"), "timezone", &["did you mean \"America/New_York\""]);
    check(&zoned("+02:00"), "timezone", &["IANA"]);
    check(&zoned("Etc/Unknown"), "timezone", &["IANA"]);
    check(&zoned(""), "timezone", &["IANA"]);
    let berlin = Timing::parse(&zoned("europe/BERLIN"), NOW).unwrap();
    assert_eq!(berlin.description(), "at 00:00, Europe/Berlin");
}

#[test]
fn a_line_and_the_field_must_not_name_two_zones() {
    let line = fields("CRON_TZ=Europe/Berlin 0 9 * * *");
    let both = |zone: &str| Fields { timezone: Some(zone.into()), ..line.clone() };
    check(&both("UTC"), "timezone", &["CRON_TZ", "Europe/Berlin", "UTC"]);
    for fields in [both("Europe/Berlin"), line] {
        assert_eq!(Timing::parse(&fields, NOW).unwrap().description(), "at 09:00, Europe/Berlin");
    }
    check(&fields("CRON_TZ=Mars 0 9 * * *"), "cron", &["CRON_TZ", "Mars"]);
    check(&fields("CRON_TZ= 0 9 * * *"), "cron", &["CRON_TZ"]);
    check(&fields("CRON_TZ=UTC"), "cron", &["five fields"]);
}

#[test]
fn an_end_before_the_start_is_refused() {
    let bounded = |end| Fields { start: Some(NOW), end: Some(end), ..fields("@daily") };
    let start = "2026-01-01T00:00:00Z";
    check(&bounded(NOW), "end", &[start, "2026-01-02T00:00:00Z"]);
    check(&bounded(0), "end", &[start, "1970-01-01T00:00:00Z"]);
    assert!(Timing::parse(&bounded(NOW + 1), NOW).is_ok());
}

#[test]
fn a_line_that_never_runs_is_refused() {
    for line in ["0 0 31 2 *", "0 0 30 2 +MON", "0 0 29 2 +1#1", "0 0 31 4,6,9,11 *"] {
        check(&fields(line), "cron", &["ten years", line]);
    }
    // The next leap day on a Monday is in 2044.
    check(&fields("0 0 29 2 +MON"), "cron", &["ten years"]);
    let later = Fields { start: Some(2_100_000_000_000), ..fields("0 0 29 2 +MON") };
    assert!(Timing::parse(&later, NOW).is_ok());
}

#[test]
fn a_wrong_field_of_a_line_is_named() {
    for (line, words) in [
        ("60 * * * *", ["\"60\"", "minutes", "0 to 59"]),
        ("0/15 * * * *", ["\"0/15\"", "minutes", "write 0-59/15"]),
        ("*/90 * * * *", ["\"*/90\"", "minutes", "use `every`"]),
        ("0 0 ?/2 * *", ["\"?/2\"", "day of the month", "*/5"]),
        ("@every 5m", ["@every", "{\"every\": \"5m\"}", "instead of `cron`"]),
        ("TZ=Asia/Tokyo 0 9 * * *", ["CRON_TZ=Asia/Tokyo", "instead of", "TZ=Asia/Tokyo"]),
        ("1,,2 * * * *", ["\"1,,2\"", "minutes", "0 to 59"]),
        ("61 * * * * *", ["\"61\"", "seconds", "0 to 59"]),
        ("0 24 * * *", ["\"24\"", "hours", "0 to 23"]),
        ("0 0 0 * *", ["\"0\"", "day of the month", "1 to 31"]),
        ("0 0 1W5 * *", ["\"1W5\"", "day of the month", "15W"]),
        ("0 0 L,LW * *", ["\"L,LW\"", "day of the month", "LW"]),
        ("0 0 * JANFEB *", ["\"JANFEB\"", "month", "JAN to DEC"]),
        ("0 0 * * MONDAY", ["\"MONDAY\"", "day of the week", "SUN to SAT"]),
        ("0 0 * * L", ["\"L\"", "day of the week", "5L"]),
        ("0 0 * * 5#6", ["\"5#6\"", "day of the week", "5#2"]),
    ] {
        check(&fields(line), "cron", &words);
    }
}

#[test]
fn a_line_of_another_form_is_refused() {
    for line in ["", "* * * *", "* * * * * * *", "@reboot", "@daily *", "every monday", "0 9 ⋆ * *"]
    {
        check(&fields(line), "cron", &["as in \"0 9 * * MON-FRI\""]);
    }
    check(&fields(&"1,".repeat(300)), "cron", &["512", "600"]);
}

#[test]
fn aliases_and_names_are_read_in_any_case() {
    for (alias, line) in [
        ("@hourly", "0 * * * *"),
        ("@Daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        (" @weekly ", "0 0 * * sun"),
        ("@monthly", "0\t0 1 * ?"),
        ("@yearly", "0 0 1 jan *"),
        ("@annually", "00 00 01 01 *"),
    ] {
        let [alias, line] = [alias, line].map(|line| Timing::parse(&fields(line), NOW).unwrap());
        let instants = |timing: &Timing| {
            std::iter::successors(timing.next_after(NOW), |t| timing.next_after(*t))
                .take(30)
                .collect::<Vec<_>>()
        };
        assert_eq!(instants(&alias), instants(&line), "{}", line.description());
    }
}
