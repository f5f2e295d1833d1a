//! When a period begins and ends, by local time: days that have 23 or 25 hours, and months that have no 31st.

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};

use super::{Every, Quota};

/// The day on which the period began in which `today` is.
///
/// # Errors
/// Where a calendar ends (years −9999 to 9999).
pub fn beginning(quota: &Quota, today: Date) -> Result<Date, jiff::Error> {
    match quota.every {
        Every::Day => Ok(today),
        Every::Week => {
            let first = Weekday::from_monday_one_offset(quota.day)?;
            today.checked_sub(i64::from(today.weekday().since(first)).days())
        }
        Every::Month => {
            let this = in_month(today, quota.day)?;
            if this <= today { Ok(this) } else { in_month(today.first_of_month().yesterday()?, quota.day) }
        }
    }
}

/// The first instant of the period after the one that began on that day. The day may begin later than at midnight, where clocks are
/// put forward then.
///
/// # Errors
/// Where a calendar ends.
pub fn end(quota: &Quota, beginning: Date, zone: &TimeZone) -> Result<Timestamp, jiff::Error> {
    let next = match quota.every {
        Every::Day => beginning.tomorrow()?,
        Every::Week => beginning.checked_add(1.week())?,
        Every::Month => in_month(beginning.last_of_month().tomorrow()?, quota.day)?,
    };
    let first: Zoned = next.to_zoned(zone.clone())?.start_of_day()?;
    Ok(first.timestamp())
}

/// The day of the month in which `date` is, or its last one where it has no such day.
fn in_month(date: Date, day: i8) -> Result<Date, jiff::Error> {
    date.with().day(day.min(date.days_in_month())).build()
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;
    use crate::quota::Then;

    fn quota(every: Every, day: i8) -> Quota {
        Quota { bytes: 1, every, day, then: Then::Backup }
    }

    #[test]
    fn months_begin_on_their_day_or_on_their_last_one() {
        let on_31st = quota(Every::Month, 31);
        for (today, began) in [
            (date(2028, 2, 28), date(2028, 1, 31)),
            (date(2028, 2, 29), date(2028, 2, 29)),
            (date(2028, 3, 30), date(2028, 2, 29)),
            (date(2028, 3, 31), date(2028, 3, 31)),
            (date(2027, 2, 28), date(2027, 2, 28)),
            (date(2027, 1, 1), date(2026, 12, 31)),
            (date(2027, 5, 1), date(2027, 4, 30)),
        ] {
            assert_eq!(beginning(&on_31st, today).unwrap(), began, "{today}");
        }
        let on_first = quota(Every::Month, 1);
        assert_eq!(beginning(&on_first, date(2026, 12, 31)).unwrap(), date(2026, 12, 1));
        let utc = end(&on_first, date(2026, 12, 1), &TimeZone::UTC).unwrap();
        assert_eq!(utc.to_string(), "2027-01-01T00:00:00Z");
        let leap = end(&on_31st, date(2028, 1, 31), &TimeZone::UTC).unwrap();
        assert_eq!(leap.to_string(), "2028-02-29T00:00:00Z");
        let after = end(&on_31st, date(2028, 2, 29), &TimeZone::UTC).unwrap();
        assert_eq!(after.to_string(), "2028-03-31T00:00:00Z");
    }

    #[test]
    fn weeks_begin_on_their_day() {
        // A Thursday.
        let from_friday = quota(Every::Week, 5);
        assert_eq!(beginning(&from_friday, date(2026, 12, 3)).unwrap(), date(2026, 11, 27));
        assert_eq!(beginning(&from_friday, date(2026, 12, 4)).unwrap(), date(2026, 12, 4));
        let from_monday = quota(Every::Week, 1);
        assert_eq!(beginning(&from_monday, date(2026, 12, 6)).unwrap(), date(2026, 11, 30));
        let ends = end(&from_monday, date(2026, 11, 30), &TimeZone::UTC).unwrap();
        assert_eq!(ends.to_string(), "2026-12-07T00:00:00Z");
    }

    #[test]
    fn days_have_23_hours_and_25_where_clocks_are_put_forward_and_back() {
        let daily = quota(Every::Day, 1);
        // Rules of the zone as POSIX writes them: forward at 2 on the last Sunday of March, back at 3 on that of October.
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        for (day, hours) in [(date(2027, 3, 28), 23), (date(2027, 10, 31), 25), (date(2027, 6, 1), 24)] {
            let began = day.to_zoned(berlin.clone()).unwrap().timestamp();
            let ends = end(&daily, day, &berlin).unwrap();
            assert_eq!(ends.as_second() - began.as_second(), hours * 3600, "{day}");
        }
        // Where clocks go forward at midnight the day begins at one.
        let cairo = TimeZone::posix("EET-2EEST,M4.5.5/0,M10.5.4/24").unwrap();
        let ends = end(&daily, date(2027, 4, 29), &cairo).unwrap();
        assert_eq!(ends.to_zoned(cairo).hour(), 1);
    }

    #[test]
    fn every_day_belongs_to_one_period_that_begins_no_later() {
        let all =
            [(Every::Day, 1), (Every::Week, 1), (Every::Week, 7), (Every::Month, 1), (Every::Month, 30)];
        for (every, day) in all {
            let quota = quota(every, day);
            let mut today = date(2027, 1, 1);
            for _ in 0..800 {
                let began = beginning(&quota, today).unwrap();
                let ends = end(&quota, began, &TimeZone::UTC).unwrap().to_zoned(TimeZone::UTC).date();
                assert!(began <= today && today < ends, "{every:?} {day}: {began} {today} {ends}");
                assert_eq!(beginning(&quota, ends).unwrap(), ends);
                today = today.tomorrow().unwrap();
            }
        }
    }
}
