//! What a member tells the others.

use pacing::Nanos;
use postcard::{fixint, take_from_bytes};
use serde::{Deserialize, Serialize};

/// How often a member computes what it may send, and may report what its clients ask for.
pub const INTERVAL: Nanos = Nanos::from_millis(200);

/// What one client asks of one member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// A keyed hash of the client: equal on all members, and of no use without the key.
    pub client: u64,
    /// Its shares, 1 to 1,000.
    pub weight: u16,
    /// Writes a second that it asks for; infinite while some of them wait.
    pub per_second: f32,
}

/// What all clients of one member ask for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Drawn anew when a member starts.
    #[serde(with = "fixint::le")]
    pub member: u64,
    /// Counts the reports of a member.
    pub number: u64,
    /// The common limit as this member has it, writes a second.
    pub limit: f64,
    /// The next one comes after so many [intervals](crate::INTERVAL) at most, 1 or more.
    pub period: u16,
    /// It is its last report: the member stops.
    pub is_last: bool,
    /// What all that are not listed ask for together, writes a second, and how many they are.
    pub others: (f32, u32),
    /// Those that ask for most, by their hashes.
    #[serde(skip)]
    pub demands: Vec<Demand>,
}

/// Bytes that are no report of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// They have another form.
    #[error("it is no report of a sentinel")]
    Malformed,
    /// A report whose clients have other hashes, or that counts otherwise.
    #[error(
        "a sentinel of another version has the same key: it is left an equal part, and a client of both has two shares; \
         let all run one version"
    )]
    OtherVersion {
        /// The client's hash.
        member: u64,
    },
}

const MAGIC: [u8; 3] = *b"tgc";
/// Another one for each change of a report's form, of the hashes in it, or of how shares follow from them.
const VERSION: u8 = b'5';
/// `MSG`, a subject of 25 bytes, and the numbers of the subscription and of the bytes (NATS protocol, MSG).
const FRAME: usize = 42;
/// Bytes before the demands, and of each, at most.
const HEAD: usize = 4 + 8 + 10 + 8 + 3 + 1 + 4 + 5 + 3;
const DEMAND: usize = 8 + 2 + 4;

impl Report {
    /// Demands at most: their report has 229 kB, of the 1 MB that a NATS server takes by default.
    pub const MOST: usize = 16_384;

    /// How long until the next one, at most.
    pub(crate) const fn period(&self) -> Nanos {
        INTERVAL.saturating_mul(self.period as u64)
    }

    /// Bytes of it on the bus, at most.
    pub(crate) const fn bytes(&self) -> usize {
        FRAME + HEAD + DEMAND * self.demands.len()
    }

    /// `tgc5` and the member (8 bytes, little-endian), as in each version, then all else but the demands, and how many they
    /// are, in postcard's wire format; then of each its hash, its weight and its rate, little-endian.
    ///
    /// # Panics
    /// Never: memory is the only bound.
    pub fn encode(&self) -> Vec<u8> {
        let head = (MAGIC, VERSION, self, self.demands.len());
        let mut bytes = postcard::to_allocvec(&head).expect("a vector takes any report");
        bytes.reserve(DEMAND * self.demands.len());
        for demand in &self.demands {
            bytes.extend_from_slice(&demand.client.to_le_bytes());
            bytes.extend_from_slice(&demand.weight.to_le_bytes());
            bytes.extend_from_slice(&demand.per_second.to_le_bytes());
        }
        bytes
    }

    /// Reads a report.
    ///
    /// # Errors
    /// [`Unread`]: it has another version or form, a weight or a rate that no client can have, or more than
    /// [`MOST`](Self::MOST) demands.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unread> {
        let malformed = |_| Unread::Malformed;
        let head = take_from_bytes::<([u8; 3], u8, [u8; 8])>(bytes).map_err(malformed)?;
        let (magic, version, member) = head.0;
        if magic == MAGIC && version != VERSION {
            let member = u64::from_le_bytes(member);
            return Err(Unread::OtherVersion { member });
        }
        let read = take_from_bytes::<(([u8; 3], u8), Self, usize)>(bytes);
        let ((_, mut report, count), rest) = read.map_err(malformed)?;
        let (demands, rest) = rest.as_chunks();
        let read = |&[a, b, c, d, e, f, g, h, w, x, p, q, r, s]: &[u8; DEMAND]| Demand {
            client: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            weight: u16::from_le_bytes([w, x]),
            per_second: f32::from_le_bytes([p, q, r, s]),
        };
        report.demands = demands.iter().map(read).collect();
        let is_whole = demands.len() == count && rest.is_empty();
        let is_sound = magic == MAGIC && is_whole && report.is_sound();
        is_sound.then_some(report).ok_or(Unread::Malformed)
    }

    /// Whether a member can have sent this.
    fn is_sound(&self) -> bool {
        let is_demand = |it: &Demand| it.per_second >= 0.0 && (1..=1_000).contains(&it.weight);
        self.limit.is_finite()
            && self.limit > 0.0
            && self.period > 0
            && self.others.0 >= 0.0
            && self.demands.len() <= Self::MOST
            && self.demands.iter().all(is_demand)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reports() -> impl Strategy<Value = Report> {
        let rate = prop_oneof![Just(f32::INFINITY), 0.0..1e6_f32];
        let demand =
            (any::<u64>(), 1..=1_000_u16, rate).prop_map(|(client, weight, per_second)| Demand {
                client,
                weight,
                per_second,
            });
        let demands = prop::collection::vec(demand, 0..20);
        let head = (
            (any::<u64>(), any::<u64>(), 1..=u16::MAX, any::<bool>()),
            1e-3..1e9_f64,
            (0.0..1e6_f32, any::<u32>()),
        );
        (head, demands).prop_map(
            |(((member, number, period, is_last), limit, others), demands)| Report {
                member,
                number,
                limit,
                period,
                is_last,
                demands,
                others,
            },
        )
    }

    proptest! {
        #[test]
        fn a_report_is_read_as_it_was_written_and_not_when_cut(report in reports(), cut in 0.0..1.0_f64) {
            let bytes = report.encode();
            prop_assert_eq!(Report::decode(&bytes).unwrap(), report);
            let cut = (bytes.len() as f64 * cut) as usize;
            prop_assert!(Report::decode(&bytes[..cut]).is_err());
        }

        #[test]
        fn no_bytes_are_too_much_and_no_number_comes_in_that_a_division_cannot_bear(
            report in reports(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let mut bytes = report.encode();
            for (place, byte) in damage {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            if let Ok(read) = Report::decode(&bytes) {
                prop_assert!(read.limit > 0.0 && read.limit.is_finite() && read.period > 0);
                for demand in &read.demands {
                    prop_assert!(demand.per_second >= 0.0 && (1..=1_000).contains(&demand.weight));
                }
            }
        }
    }

    #[test]
    fn a_report_of_another_version_says_whose_it_is_and_no_more() {
        let mut bytes = b"tgc7".to_vec();
        bytes.extend(77_u64.to_le_bytes());
        for tail in [&[][..], &[0xff; 90]] {
            let whole = [&bytes, tail].concat();
            let other = Unread::OtherVersion { member: 77 };
            assert_eq!(Report::decode(&whole), Err(other));
        }
        assert!(matches!(Report::decode(b"tgc7"), Err(Unread::Malformed)));
        assert!(matches!(
            Report::decode(b"GET / HTTP/1.1"),
            Err(Unread::Malformed)
        ));
    }

    #[test]
    fn a_head_that_promises_more_than_comes_reserves_nothing() {
        let report = Report {
            member: 1,
            number: 1,
            limit: 1.0,
            period: 1,
            is_last: false,
            demands: Vec::new(),
            others: (0.0, 0),
        };
        let mut bytes = report.encode();
        assert_eq!(bytes.pop(), Some(0));
        // 2^28 - 1 demands.
        bytes.extend([0xff, 0xff, 0xff, 0x7f]);
        assert_eq!(Report::decode(&bytes), Err(Unread::Malformed));
    }
}
