//! How due times are spread inside a profile.

use std::{fmt, num::NonZeroU32, str::FromStr};

use crate::error::{Kind, ValueError};

/// How due times are spread inside a profile.
///
/// As text: `even`, `poisson`, `burst:N`. The seed of `poisson` is given apart from the text; a
/// parsed one is 0 until [`Arrivals::with_seed`] sets it.
///
/// How to choose: `Even` shows what a rate does and nothing else; `Poisson` is what many
/// independent clients look like; `Burst` is what one client that wakes on a timer looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Arrivals {
    /// Each transaction when the integral of the profile reaches its index.
    #[default]
    Even,
    /// A Poisson process whose intensity is the profile: the gaps between transactions, measured
    /// in planned transactions, are exponential with mean 1. The same seed gives the same times.
    Poisson {
        /// Any number.
        seed: u64,
    },
    /// `size` transactions together, at the instant the first of them is due under [`Arrivals::Even`].
    Burst {
        /// How many leave together.
        size: NonZeroU32,
    },
}

impl Arrivals {
    /// The same arrivals, with this seed where there is one.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        match self {
            Self::Poisson { .. } => Self::Poisson { seed },
            other => other,
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Even => f.write_str("even"),
            Self::Poisson { .. } => f.write_str("poisson"),
            Self::Burst { size } => write!(f, "burst:{size}"),
        }
    }
}

impl FromStr for Arrivals {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let refuse = |reason| ValueError::not_a(&ARRIVALS, text, reason);
        match text.trim() {
            "even" => Ok(Self::Even),
            "poisson" => Ok(Self::Poisson { seed: 0 }),
            "burst" => Err(refuse("burst needs a size, such as burst:10")),
            other => {
                let size = other.strip_prefix("burst:");
                let size = size.ok_or_else(|| refuse("there is no such kind"))?;
                let size = size.parse().map_err(|_| refuse(BURST_SIZE))?;
                Ok(Self::Burst { size })
            }
        }
    }
}

const ARRIVALS: Kind = Kind("a kind of arrivals", "use even, poisson or burst:N");
const BURST_SIZE: &str = "the size of a burst is a whole number from 1 to 4294967295";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for text in ["even", "poisson", "burst:10"] {
            assert_eq!(text.parse::<Arrivals>().unwrap().to_string(), text);
        }
        assert_eq!(
            "poisson".parse::<Arrivals>().unwrap().with_seed(7),
            Arrivals::Poisson { seed: 7 }
        );
        assert_eq!(Arrivals::Even.with_seed(7), Arrivals::Even);
    }

    #[test]
    fn refuses_with_what_is_allowed() {
        for text in [
            "",
            "odd",
            "burst",
            "burst:0",
            "burst:x",
            "burst:-1",
            "even:3",
            "poisson:3",
        ] {
            let message = text.parse::<Arrivals>().unwrap_err().to_string();
            assert!(
                message.contains("use even, poisson or burst:N"),
                "{message}"
            );
        }
    }
}
