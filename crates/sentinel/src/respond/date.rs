//! The `Date` of answers, made once a second.

/// A date as HTTP writes it, such as `Sat, 21 Nov 2026 05:45:54 GMT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpDate {
    unix_seconds: u64,
    text: [u8; LEN],
}

const LEN: usize = "Sat, 21 Nov 2026 05:45:54 GMT".len();

impl HttpDate {
    /// The date of that second. Years beyond 9999 are written as 9999.
    pub fn new(unix_seconds: u64) -> Self {
        Self {
            unix_seconds,
            text: write(unix_seconds),
        }
    }

    /// Makes it the date of another second, if it is another.
    pub fn set(&mut self, unix_seconds: u64) {
        if self.unix_seconds != unix_seconds {
            *self = Self::new(unix_seconds);
        }
    }

    /// The second that it stands for.
    pub const fn unix_seconds(&self) -> u64 {
        self.unix_seconds
    }

    /// The text.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.text
    }
}

fn write(unix_seconds: u64) -> [u8; LEN] {
    let (days, second) = (unix_seconds / DAY, unix_seconds % DAY);
    let date = Date::of(days);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[..3].copy_from_slice(WEEKDAYS[(days % 7) as usize]);
    text[8..11].copy_from_slice(MONTHS[date.month]);
    let two = |value: u64| [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
    text[5..7].copy_from_slice(&two(date.day));
    text[12..14].copy_from_slice(&two(date.year / 100));
    text[14..16].copy_from_slice(&two(date.year % 100));
    text[17..19].copy_from_slice(&two(second / 3600));
    text[20..22].copy_from_slice(&two(second / 60 % 60));
    text[23..25].copy_from_slice(&two(second % 60));
    text
}

const DAY: u64 = 86_400;
const WEEKDAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// A day of the Gregorian calendar.
struct Date {
    year: u64,
    /// From 0.
    month: usize,
    day: u64,
}

impl Date {
    /// The day so many days after 1 January 1970. Counts whole years, then whole months: it is
    /// asked once a second.
    fn of(days: u64) -> Self {
        let (mut year, mut left) = (1970, days.min(LAST_DAY));
        while left >= year_days(year) {
            left -= year_days(year);
            year += 1;
        }
        let mut month = 0;
        while left >= month_days(year, month) {
            left -= month_days(year, month);
            month += 1;
        }
        Self {
            year,
            month,
            day: left + 1,
        }
    }
}

/// 31 December 9999.
const LAST_DAY: u64 = 2_932_896;

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn year_days(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

const fn month_days(year: u64, month: usize) -> u64 {
    match month {
        1 if is_leap(year) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT"),
            (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
            (1_795_239_954, "Sat, 21 Nov 2026 05:45:54 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            let date = HttpDate::new(seconds);
            assert_eq!(std::str::from_utf8(date.as_bytes()), Ok(text));
        }
        let mut date = HttpDate::new(u64::MAX);
        assert!(date.as_bytes().ends_with(b" GMT"));
        date.set(0);
        assert_eq!(date, HttpDate::new(0));
    }
}
