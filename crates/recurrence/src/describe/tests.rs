use super::{cron, every};
use crate::line::Line;

#[track_caller]
fn check(line: &str, expected: &str) {
    let fields = Line::parse(line).unwrap().fields.join(" ");
    assert_eq!(cron(&fields, "UTC"), format!("{expected}, UTC"), "{line}");
}

#[test]
fn times_of_day_read_like_a_clock() {
    check("0 9 * * *", "at 09:00");
    check("30 0 14 * * *", "at 14:00:30");
    check("0 9,12,18 * * *", "at 09:00, 12:00 and 18:00");
    check("15 9-17 * * *", "every hour from 09:15 to 17:15");
}

#[test]
fn repetitions_name_their_unit() {
    check("* * * * *", "every minute");
    check("* * * * * *", "every second");
    check("*/10 * * * * *", "every 10 seconds");
    check("*/5 * * * *", "every 5 minutes");
    check("*/7 * * * *", "every 7th minute");
    check("0 * * * *", "every hour");
    check("0 */2 * * *", "every 2 hours");
    check("15,45 * * * *", "at minutes 15 and 45, every hour");
    check("*/15 9-17 * * *", "every 15 minutes, in hours 9 to 17");
    check("* 2 * * *", "every minute, in hour 2");
    check("15 */2 * * *", "at minute 15, in every 2nd hour");
    check("1-59/2 * * * *", "at minutes 1 to 59 in steps of 2, every hour");
    check("* 30 2 * * *", "every second, at minute 30, in hour 2");
    check("5 * * * * *", "at second 5, every minute");
}

#[test]
fn days_and_months_have_their_names() {
    check("0 9 * * 1-5", "at 09:00, on Monday to Friday");
    check("0 9 * * 0-7", "at 09:00");
    check("* * */2 * *", "every minute, on every 2nd day of the month from the 1st");
    check("0 0 */2 * MON", "at 00:00, on every 2nd day of the month from the 1st if it is Monday");
    check("0 9 * * SAT,7", "at 09:00, on Saturday and Sunday");
    check("0 0 1,15 * *", "at 00:00, on days 1 and 15 of the month");
    check("0 0 */10 * *", "at 00:00, on every 10th day of the month from the 1st");
    check("0 0 1 1,JUL *", "at 00:00, on day 1 of the month, in January and July");
    check("0 0 1 */3 *", "at 00:00, on day 1 of the month, in every 3rd month");
    check("0 0 L * *", "at 00:00, on the last day of the month");
    check("0 0 LW * *", "at 00:00, on the last weekday of the month");
    check("0 0 15W * *", "at 00:00, on the weekday nearest to day 15 of the month");
    check("0 0 * * 5#2", "at 00:00, on the second Friday of the month");
    check("0 0 * * FRIL", "at 00:00, on the last Friday of the month");
    check("0 0 13 * 5", "at 00:00, on day 13 of the month or on Friday");
    check("0 0 1-7 * +MON", "at 00:00, on days 1 to 7 of the month if it is Monday");
}

#[test]
fn intervals_have_the_largest_unit() {
    assert_eq!(every(1_000), "every second");
    assert_eq!(every(90_000), "every 90 seconds");
    assert_eq!(every(86_400_000), "every day");
    assert_eq!(every(604_800_000), "every 7 days");
    assert_eq!(every(1_500), "every 1500 milliseconds");
}
