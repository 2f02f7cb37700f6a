//! What a member tells the others.

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
    #[error("a sentinel of another version is on the same NATS server with the same key")]
    OtherVersion {
        /// Of whom.
        member: u64,
    },
}

use Unread::Malformed;

const MAGIC: [u8; 3] = *b"tgc";
/// Another one for each change of a report's form, of the hashes in it, or of how shares follow from them.
const VERSION: u8 = b'2';
/// Bytes before the demands, and of each.
const HEAD: usize = 4 + 8 + 8 + 8 + 1 + 4 + 4 + 4;
const DEMAND: usize = 8 + 2 + 4;

impl Report {
    /// Demands at most: their report has 229 kB, of the 1 MB that a NATS server takes by default.
    pub const MOST: usize = 16_384;

    /// Bytes, all numbers little-endian: `tgc2` and the member (8), as in each version; number (8), limit (f64), last (1), what the others ask for
    /// (f32), how many they are (4), number of demands (4), and for each client (8), weight (2), rate (f32).
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + DEMAND * self.demands.len());
        bytes.extend(MAGIC);
        bytes.push(VERSION);
        bytes.extend(self.member.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.limit.to_le_bytes());
        bytes.push(u8::from(self.is_last));
        bytes.extend(self.others.0.to_le_bytes());
        bytes.extend(self.others.1.to_le_bytes());
        let count = u32::try_from(self.demands.len()).unwrap_or(u32::MAX);
        bytes.extend(count.to_le_bytes());
        for demand in &self.demands {
            bytes.extend(demand.client.to_le_bytes());
            bytes.extend(demand.weight.to_le_bytes());
            bytes.extend(demand.per_second.to_le_bytes());
        }
        bytes
    }

    /// Reads a report.
    ///
    /// # Errors
    /// [`Unread`]: it has another version or form, a weight or a rate that no client can have, or more than
    /// [`MOST`](Self::MOST) demands.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unread> {
        let mut rest = Rest(bytes);
        if rest.take()? != MAGIC {
            return Err(Malformed("it begins otherwise"));
        }
        let [version] = rest.take()?;
        let member = rest.u64()?;
        if version != VERSION {
            return Err(Unread::OtherVersion { member });
        }
        let number = rest.u64()?;
        let limit = f64::from_le_bytes(rest.take()?);
        if !(limit.is_finite() && limit > 0.0) {
            return Err(Malformed("its limit is not above 0"));
        }
        let [last] = rest.take()?;
        let others = (rate(rest.take()?)?, u32::from_le_bytes(rest.take()?));
        let count = u32::from_le_bytes(rest.take()?) as usize;
        if count > Self::MOST || rest.0.len() != count * DEMAND {
            return Err(Malformed("it has another length than its head says"));
        }
        let mut demands = Vec::with_capacity(count);
        for _ in 0..count {
            let client = rest.u64()?;
            let weight = u16::from_le_bytes(rest.take()?);
            if !(1..=1_000).contains(&weight) {
                return Err(Malformed("a weight is not 1 to 1,000"));
            }
            demands.push(Demand {
                client,
                weight,
                per_second: rate(rest.take()?)?,
            });
        }
        Ok(Self {
            member,
            number,
            limit,
            is_last: last != 0,
            demands,
            others,
        })
    }
}

/// Zero or more, or infinite.
fn rate(bytes: [u8; 4]) -> Result<f32, Unread> {
    let rate = f32::from_le_bytes(bytes);
    if rate >= 0.0 {
        Ok(rate)
    } else {
        Err(Malformed("a rate is below 0"))
    }
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Unread> {
        let (taken, rest) = self
            .0
            .split_first_chunk()
            .ok_or(Malformed("it is cut off"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u64(&mut self) -> Result<u64, Unread> {
        Ok(u64::from_le_bytes(self.take()?))
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
            any::<(u64, u64, bool)>(),
            1e-3..1e9_f64,
            (0.0..1e6_f32, any::<u32>()),
        );
        (head, demands).prop_map(
            |(((member, number, is_last), limit, others), demands)| Report {
                member,
                number,
                limit,
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
                prop_assert!(read.limit > 0.0 && read.limit.is_finite());
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
