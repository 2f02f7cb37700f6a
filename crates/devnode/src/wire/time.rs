//! Block time: nanoseconds since the Unix epoch, written as RFC 3339 in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use super::proto;

const NANOS: i64 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;

/// A UTC instant with nanoseconds, as headers and votes carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockTime(i64);

impl BlockTime {
    /// What the wall clock shows.
    pub(crate) fn now() -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }

    #[cfg(test)]
    pub(crate) fn from_unix_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// One millisecond later: the least step between two block times
    /// (`voteTime` in `consensus/state.go`, CometBFT 0.38).
    pub(crate) fn next_millisecond(self) -> Self {
        Self(self.0 + 1_000_000)
    }

    /// `google.protobuf.Timestamp`.
    pub(crate) fn proto(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        proto::int_field(&mut out, 1, self.0.div_euclid(NANOS));
        proto::int_field(&mut out, 2, self.0.rem_euclid(NANOS));
        out
    }

    /// RFC 3339 with the shortest fraction, as Go's `RFC3339Nano`.
    pub(crate) fn text(self) -> String {
        let seconds = self.0.div_euclid(NANOS);
        let (year, month, day) = civil(seconds.div_euclid(DAY_SECONDS));
        let of_day = seconds.rem_euclid(DAY_SECONDS);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        let fraction = self.0.rem_euclid(NANOS);
        if fraction > 0 {
            let digits = format!(".{fraction:09}");
            text.push_str(digits.trim_end_matches('0'));
        }
        text.push('Z');
        text
    }

    /// Reads RFC 3339 with a `Z`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('Z')?;
        let (date, clock) = text.split_once('T')?;
        let mut parts = date.splitn(3, '-').map(str::parse::<i64>);
        let (year, month, day) = (
            parts.next()?.ok()?,
            parts.next()?.ok()?,
            parts.next()?.ok()?,
        );
        let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
        let mut parts = clock.splitn(3, ':').map(str::parse::<i64>);
        let (hour, minute, second) = (
            parts.next()?.ok()?,
            parts.next()?.ok()?,
            parts.next()?.ok()?,
        );
        let nanos: i64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
        let seconds = days(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second;
        Some(Self(seconds * NANOS + nanos))
    }
}

/// Appends a date as HTTP writes it: `Sat, 21 Nov 2026 02:18:43 GMT`.
pub(crate) fn http_date(out: &mut Vec<u8>, unix_seconds: u64) {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let seconds = unix_seconds.cast_signed();
    let day_number = seconds.div_euclid(DAY_SECONDS);
    let (year, month, day) = civil(day_number);
    let of_day = seconds.rem_euclid(DAY_SECONDS);
    let weekday = usize::try_from(day_number.rem_euclid(7)).map_or("", |at| DAYS[at]);
    let month = usize::try_from(month - 1)
        .ok()
        .and_then(|at| MONTHS.get(at))
        .unwrap_or(&"");
    let two = |out: &mut Vec<u8>, value: i64| {
        if value < 10 {
            out.push(b'0');
        }
        super::json::int(out, value);
    };
    super::json::raw(out, weekday);
    super::json::raw(out, ", ");
    two(out, day);
    out.push(b' ');
    super::json::raw(out, month);
    out.push(b' ');
    super::json::int(out, year);
    out.push(b' ');
    two(out, of_day / 3600);
    out.push(b':');
    two(out, of_day / 60 % 60);
    out.push(b':');
    two(out, of_day % 60);
    super::json::raw(out, " GMT");
}

/// Days since 1970-01-01 to year, month, day (proleptic Gregorian calendar, eras of 400 years).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 {
        month_index + 3
    } else {
        month_index - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// The other way round.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era * 146_097 + of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_go_writes_them() {
        assert_eq!(BlockTime::from_unix_nanos(0).text(), "1970-01-01T00:00:00Z");
        assert_eq!(
            BlockTime::from_unix_nanos(1_795_227_520_191_902_085).text(),
            "2026-11-21T02:18:40.191902085Z"
        );
        assert_eq!(
            BlockTime::from_unix_nanos(951_782_400_500_000_000).text(),
            "2000-02-29T00:00:00.5Z"
        );
    }

    #[test]
    fn http_has_its_own_date() {
        let mut out = Vec::new();
        http_date(&mut out, 1_795_227_523);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "Sat, 21 Nov 2026 02:18:43 GMT"
        );
    }

    #[test]
    fn written_times_are_read_back() {
        for nanos in [
            0,
            1,
            999_999_999,
            951_782_400_500_000_000,
            1_795_227_520_191_902_085,
            4_102_444_799_000_000_001,
        ] {
            let time = BlockTime::from_unix_nanos(nanos);
            assert_eq!(BlockTime::parse(&time.text()), Some(time));
        }
        assert_eq!(BlockTime::parse("yesterday"), None);
    }
}
