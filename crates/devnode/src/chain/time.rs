//! Block time: nanoseconds since the Unix epoch, written as RFC 3339 in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

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

    /// RFC 3339 in UTC with the shortest fraction, as Go's `RFC3339Nano`.
    pub(crate) fn text(self) -> String {
        Timestamp::from_nanosecond(i128::from(self.0))
            .unwrap_or_default()
            .to_string()
    }
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
}
