//! Networks that the operator has forbidden while the program runs: each until a time, with a reason.

use fairq::{Network, NetworkMap};
use pacing::Nanos;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    /// The network that may not use the proxy.
    pub who: Network,
    /// Until when; none for as long as the program runs.
    pub until: Option<Nanos>,
    /// Why, in the operator's words.
    pub why: String,
}

/// All of them, at most [`Bans::MOST`].
#[derive(Debug, Default)]
pub struct Bans(Vec<Ban>);

impl Bans {
    /// What an operator, or a program that watches the log, may have at one time; whole countries belong into
    /// `trust.deny`.
    pub const MOST: usize = 4_096;

    /// Adds one, in place of the one of the same network.
    ///
    /// # Errors
    /// There are too many.
    pub fn add(&mut self, ban: Ban) -> Result<(), String> {
        self.remove(&ban.who);
        if self.0.len() >= Self::MOST {
            return Err(format!(
                "{} networks are banned already; unban some, or list networks in trust.deny",
                Self::MOST
            ));
        }
        self.0.push(ban);
        Ok(())
    }

    /// Takes one back: whether it was there.
    pub fn remove(&mut self, who: &Network) -> bool {
        let before = self.0.len();
        self.0.retain(|ban| ban.who != *who);
        self.0.len() < before
    }

    /// Ends those whose time has come: whether there were any.
    pub fn expire(&mut self, now: Nanos) -> bool {
        let before = self.0.len();
        self.0
            .retain(|ban| ban.until.is_none_or(|until| until > now));
        self.0.len() < before
    }

    /// All of them, the oldest first.
    pub fn all(&self) -> &[Ban] {
        &self.0
    }

    /// Their networks.
    pub(crate) fn networks(&self) -> NetworkMap<()> {
        let mut networks = NetworkMap::new();
        for ban in &self.0 {
            // A map holds more than there may be bans.
            let _ = networks.insert(ban.who, ());
        }
        networks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ban(who: &str, until: Option<u64>) -> Ban {
        Ban {
            who: who.parse().unwrap(),
            until: until.map(Nanos::from_secs),
            why: "a flood".to_owned(),
        }
    }

    #[test]
    fn bans_end_by_themselves_are_replaced_and_have_a_bound() {
        let mut bans = Bans::default();
        bans.add(ban("192.0.2.0/24", Some(5))).unwrap();
        bans.add(ban("198.51.100.1/32", None)).unwrap();
        bans.add(ban("192.0.2.0/24", Some(9))).unwrap();
        assert_eq!(bans.all().len(), 2);
        assert!(!bans.expire(Nanos::from_secs(8)));
        assert!(bans.expire(Nanos::from_secs(9)));
        assert_eq!(bans.all(), [ban("198.51.100.1/32", None)]);
        assert!(bans.remove(&"198.51.100.1/32".parse().unwrap()));
        assert!(!bans.remove(&"198.51.100.1/32".parse().unwrap()));
        for number in 0..Bans::MOST {
            let who = format!("10.0.{}.{}/32", number >> 8, number & 255);
            bans.add(ban(&who, None)).unwrap();
        }
        assert!(bans.add(ban("192.0.2.0/24", None)).is_err());
    }
}
