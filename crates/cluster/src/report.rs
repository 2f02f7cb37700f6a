//! What a member tells the others.

use bytes::{Buf as _, BufMut as _, TryGetError};
use pacing::Nanos;

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
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Drawn anew when a member starts.
    pub member: u64,
    /// Counts the reports of a member.
    pub number: u64,
    /// The common limit as this member has it, writes a second.
    pub limit: f64,
    /// The next one comes after so many [intervals](crate::INTERVAL) at most, 1 or more.
    pub period: u16,
    /// It is its last report: the member stops.
    pub is_last: bool,
    /// Those that ask for most, by their hashes.
    pub demands: Vec<Demand>,
    /// What all others ask for together, writes a second, and how many they are.
    pub others: (f32, u32),
}

/// Bytes that are no report of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// They have another form.
    #[error("it is no report of a sentinel: {0}")]
    Malformed(&'static str),
    /// A report whose clients have other hashes, or that counts otherwise.
    #[error(
        "a sentinel of another version has the same key: it is left an equal part, and a client of both has two shares; \
         let all run one version"
    )]
    OtherVersion {
        /// Of whom.
        member: u64,
    },
}

use Unread::Malformed;

const MAGIC: [u8; 3] = *b"tgc";
/// Another one for each change of a report's form, of the hashes in it, or of how shares follow from them.
const VERSION: u8 = b'3';
/// `MSG`, a subject of 25 bytes, and the numbers of the subscription and of the bytes (NATS protocol, MSG).
const FRAME: usize = 42;
/// Bytes before the demands, and of each.
const HEAD: usize = 4 + 8 + 8 + 8 + 2 + 1 + 4 + 4 + 4;
const DEMAND: usize = 8 + 2 + 4;

impl Report {
    /// Demands at most: their report has 229 kB, of the 1 MB that a NATS server takes by default.
    pub const MOST: usize = 16_384;

    /// How long until the next one, at most.
    pub(crate) const fn period(&self) -> Nanos {
        INTERVAL.saturating_mul(self.period as u64)
    }

    /// Bytes of it on the bus.
    pub(crate) const fn bytes(&self) -> usize {
        FRAME + HEAD + DEMAND * self.demands.len()
    }

    /// Bytes, all numbers little-endian: `tgc3` and the member (8), as in each version; number (8), limit (f64), period (2), last (1), what the others ask for
    /// (f32), how many they are (4), number of demands (4), and for each client (8), weight (2), rate (f32).
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + DEMAND * self.demands.len());
        bytes.put_slice(&MAGIC);
        bytes.put_u8(VERSION);
        bytes.put_u64_le(self.member);
        bytes.put_u64_le(self.number);
        bytes.put_f64_le(self.limit);
        bytes.put_u16_le(self.period);
        bytes.put_u8(u8::from(self.is_last));
        bytes.put_f32_le(self.others.0);
        bytes.put_u32_le(self.others.1);
        bytes.put_u32_le(u32::try_from(self.demands.len()).unwrap_or(u32::MAX));
        for demand in &self.demands {
            bytes.put_u64_le(demand.client);
            bytes.put_u16_le(demand.weight);
            bytes.put_f32_le(demand.per_second);
        }
        bytes
    }

    /// Reads a report.
    ///
    /// # Errors
    /// [`Unread`]: it has another version or form, a weight or a rate that no client can have, or more than
    /// [`MOST`](Self::MOST) demands.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, Unread> {
        let mut magic = MAGIC;
        bytes.try_copy_to_slice(&mut magic)?;
        if magic != MAGIC {
            return Err(Malformed("it begins otherwise"));
        }
        let version = bytes.try_get_u8()?;
        let member = bytes.try_get_u64_le()?;
        if version != VERSION {
            return Err(Unread::OtherVersion { member });
        }
        let number = bytes.try_get_u64_le()?;
        let limit = bytes.try_get_f64_le()?;
        let period = bytes.try_get_u16_le()?;
        if !(limit.is_finite() && limit > 0.0 && period > 0) {
            return Err(Malformed("its limit or its period is not above 0"));
        }
        let is_last = bytes.try_get_u8()? != 0;
        let others = (rate(bytes.try_get_f32_le()?)?, bytes.try_get_u32_le()?);
        let count = bytes.try_get_u32_le()? as usize;
        if count > Self::MOST || bytes.len() != count * DEMAND {
            return Err(Malformed("it has another length than its head says"));
        }
        let demand = |_| {
            let client = bytes.try_get_u64_le()?;
            let weight = bytes.try_get_u16_le()?;
            let per_second = rate(bytes.try_get_f32_le()?)?;
            if !(1..=1_000).contains(&weight) {
                return Err(Malformed("a weight is not 1 to 1,000"));
            }
            Ok(Demand {
                client,
                weight,
                per_second,
            })
        };
        Ok(Self {
            member,
            number,
            limit,
            period,
            is_last,
            demands: (0..count).map(demand).collect::<Result<_, _>>()?,
            others,
        })
    }
}

impl From<TryGetError> for Unread {
    fn from(_: TryGetError) -> Self {
        Malformed("it is cut off")
    }
}

/// Zero or more, or infinite.
fn rate(rate: f32) -> Result<f32, Unread> {
    let is_rate = rate >= 0.0;
    is_rate
        .then_some(rate)
        .ok_or(Malformed("a rate is below 0"))
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
        assert!(matches!(Report::decode(b"tgc7"), Err(Malformed(_))));
        assert!(matches!(
            Report::decode(b"GET / HTTP/1.1"),
            Err(Malformed(_))
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
        let count = bytes.len() - 4;
        bytes[count..].fill(0xff);
        assert!(Report::decode(&bytes).is_err());
    }
}
