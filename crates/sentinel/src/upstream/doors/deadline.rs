//! The deadline that a client gives a call (`grpc-timeout`; gRPC over HTTP/2, "Requests").

use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use tokio::time::Instant;

/// When a client gives its call up. Nodes hear of what is left of the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// That of a call with these headers, which has just come.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let left = read(headers.get(GRPC_TIMEOUT)?.as_bytes())?;
        Instant::now().checked_add(left).map(Self)
    }

    pub(crate) const fn at(self) -> Instant {
        self.0
    }

    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }

    /// Writes what is left of the time.
    pub(super) fn write(self, headers: &mut HeaderMap) {
        let left = text(self.0.saturating_duration_since(Instant::now()));
        let left = HeaderValue::try_from(left).expect("digits and a letter");
        headers.insert(GRPC_TIMEOUT, left);
    }
}

fn read(text: &[u8]) -> Option<Duration> {
    let (unit, digits) = text.split_last()?;
    let (_, nanos) = UNITS.iter().find(|(letter, _)| letter == unit)?;
    let is_number = digits.len() <= MOST_DIGITS && digits.iter().all(u8::is_ascii_digit);
    let number = str::from_utf8(digits).ok().filter(|_| is_number)?;
    Some(Duration::from_nanos(*nanos) * number.parse().ok()?)
}

/// In the smallest unit that has room for it, rounded up: the node's deadline is not before the client's.
fn text(left: Duration) -> String {
    let numbers = UNITS.iter().map(|(unit, nanos)| {
        let number = left.as_nanos().div_ceil(u128::from(*nanos));
        format!("{number}{}", char::from(*unit))
    });
    let mut fitting = numbers.filter(|text| text.len() <= MOST_DIGITS + 1);
    fitting.next().unwrap_or_else(|| "99999999H".to_owned())
}

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const MOST_DIGITS: usize = 8;
/// Units, and their nanoseconds.
const UNITS: [(u8, u64); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60_000_000_000),
    (b'H', 3_600_000_000_000),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_read_and_written_as_grpc_go_does() {
        for (written, millis, again) in [
            ("1S", 1_000, "1000000u"),
            ("50m", 50, "50000000n"),
            ("0n", 0, "0n"),
            ("2M", 120_000, "120000m"),
            ("00000001H", 3_600_000, "3600000m"),
            ("99999999H", 99_999_999 * 3_600_000, "99999999H"),
        ] {
            let left = read(written.as_bytes()).unwrap();
            assert_eq!(left, Duration::from_millis(millis), "{written}");
            assert_eq!(text(left), again, "{written}");
        }
        assert_eq!(text(Duration::from_nanos(100_000_001)), "100001u");
        for wrong in [
            "",
            "S",
            "1",
            "1s",
            "-1S",
            "+1S",
            "1.5S",
            "123456789n",
            " 1S",
        ] {
            assert_eq!(read(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
