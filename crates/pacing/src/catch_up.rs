//! What to do with transactions that are already late when their turn comes.

use std::{fmt, str::FromStr};

use crate::Nanos;
use crate::decimal::{Kind, ValueError};

/// What happens to transactions that could not be sent when they were due.
///
/// A policy never moves a due time: it decides whether a late transaction is still sent. The
/// sender that applies it counts what it refuses. As text: `full`, `bounded:100ms`, `none`.
///
/// How to choose: `Full` to measure (every planned transaction is offered, lateness is recorded);
/// `Bounded` where a burst after a stall would be worse than a gap; `None` to keep the rate at any
/// instant at the profile's, at the price of transactions never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CatchUp {
    /// Everything is sent, however late.
    #[default]
    Full,
    /// Sent if late by no more than this.
    Bounded(Nanos),
    /// Sent if on time, that is late by no more than [`CatchUp::TOLERANCE`].
    None,
}

impl CatchUp {
    /// How late a transaction may be and still count as on time under [`CatchUp::None`]: 1 ms, more
    /// than a timer's coarseness and less than what a target could notice.
    pub const TOLERANCE: Nanos = Nanos::from_millis(1);

    /// Whether a transaction that was due at `due` is still to be sent at `now`.
    pub fn admits(&self, due: Nanos, now: Nanos) -> bool {
        self.limit()
            .is_none_or(|limit| now.saturating_sub(due) <= limit)
    }

    /// The greatest lateness that is still sent; nothing for [`CatchUp::Full`].
    pub fn limit(&self) -> Option<Nanos> {
        match self {
            Self::Full => None,
            Self::Bounded(limit) => Some(*limit),
            Self::None => Some(Self::TOLERANCE),
        }
    }
}

impl fmt::Display for CatchUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            Self::Bounded(limit) => write!(f, "bounded:{limit}"),
            Self::None => f.write_str("none"),
        }
    }
}

impl FromStr for CatchUp {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let refuse = |reason: &str| ValueError::not_a(&CATCH_UP, text, reason);
        match text.trim() {
            "full" => Ok(Self::Full),
            "none" => Ok(Self::None),
            "bounded" => Err(refuse("bounded needs a duration, such as bounded:100ms")),
            other => {
                let limit = other.strip_prefix("bounded:");
                let limit = limit.ok_or_else(|| refuse("there is no such policy"))?;
                match limit.parse::<Nanos>() {
                    Ok(Nanos::ZERO) => Err(refuse(ZERO)),
                    Ok(limit) => Ok(Self::Bounded(limit)),
                    Err(error) => Err(refuse(&error.to_string())),
                }
            }
        }
    }
}

const CATCH_UP: Kind = Kind("a catch-up policy", "use full, bounded:DURATION or none");
const ZERO: &str = "the duration is zero (none is the policy for that)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admits_up_to_and_including_the_limit() {
        let due = Nanos::from_secs(1);
        let late = |nanos| due.saturating_add(Nanos::new(nanos));
        assert!(CatchUp::Full.admits(due, Nanos::MAX));
        let bounded = CatchUp::Bounded(Nanos::from_millis(100));
        assert!(bounded.admits(due, late(100_000_000)));
        assert!(!bounded.admits(due, late(100_000_001)));
        assert!(CatchUp::None.admits(due, late(1_000_000)));
        assert!(!CatchUp::None.admits(due, late(1_000_001)));
        assert!(CatchUp::None.admits(due, Nanos::ZERO), "early is not late");
    }

    #[test]
    fn text_and_back() {
        for text in ["full", "none", "bounded:0.1s", "bounded:2m"] {
            assert_eq!(text.parse::<CatchUp>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_with_what_is_allowed() {
        for text in [
            "",
            "half",
            "bounded",
            "bounded:",
            "bounded:0s",
            "bounded:5",
            "full:1s",
        ] {
            let message = text.parse::<CatchUp>().unwrap_err().to_string();
            assert!(
                message.contains("use full, bounded:DURATION or none"),
                "{message}"
            );
        }
    }
}
