//! The `Date` of HTTP responses.

use jiff::SignedDuration;
use jiff::civil::{self, DateTime};

/// A date as HTTP writes it, such as `Sat, 21 Nov 2026 05:45:54 GMT`: made once a second, written
/// into every response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpDate {
    unix_seconds: u64,
    text: String,
}

impl HttpDate {
    /// The date of that second. What is past the year 9999 is written as its end.
    pub fn new(unix_seconds: u64) -> Self {
        let since = i64::try_from(unix_seconds).unwrap_or(i64::MAX);
        let date = EPOCH.saturating_add(SignedDuration::from_secs(since));
        Self {
            unix_seconds,
            text: date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(),
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
        self.text.as_bytes()
    }
}

const EPOCH: DateTime = civil::date(1970, 1, 1).at(0, 0, 0, 0);

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
