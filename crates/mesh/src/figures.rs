//! The figures of a mesh run: what its counts come to per second, per message and per parcel.

use serde::{Deserialize, Serialize};

use super::account::{Account, GENERATOR, NodeSecond};
use super::control::CodecTime;
use super::control::Counters;

/// Figures of all nodes together while the load was offered, unless a figure names another span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Transactions offered per second.
    pub(crate) offered_per_s: f64,
    /// Entries that came back to the generator's node, per second.
    pub(crate) eps_host: f64,
    /// Entries seen for the first time by the node that saw the fewest, per second.
    pub(crate) eps_least: f64,
    /// Entries seen for the first time, summed over all nodes, per second.
    pub(crate) eps_sum: f64,
    /// Standard deviation, over the seconds, of the share of a second's entries that came back to the generator's node in
    /// it: how spiky the delivery is.
    pub(crate) came_back_deviation: Option<f64>,
    /// Transactions (commits, reveals, factoids) that came back to the generator's node, per second.
    pub(crate) tps_host: f64,
    /// Parcels read per second.
    pub(crate) parcels_per_s: f64,
    /// Bytes read per second.
    pub(crate) bytes_per_s: f64,
    /// Parcels written in the whole run, for each message that was made.
    pub(crate) parcels_per_message: Option<f64>,
    /// Bytes written in the whole run, for each message that was made.
    pub(crate) bytes_per_message: Option<f64>,
    /// Bytes written for each parcel written: what was read may be on the way, or be dropped unseen by a node of
    /// another implementation.
    pub(crate) bytes_per_parcel: Option<f64>,
    /// Of those, what is no payload of a message, which has the mean size of those that were read.
    pub(crate) overhead_per_parcel: Option<f64>,
    /// Bytes for each write call: what the study of 2020 took for bytes per message.
    pub(crate) bytes_per_write: Option<f64>,
    /// Parcels for each write call.
    pub(crate) parcels_per_write: Option<f64>,
    /// Messages received again, as a share of all received.
    pub(crate) duplicate_share: Option<f64>,
    /// Parcels dropped at full queues, as a share of those put into queues.
    pub(crate) drop_share: Option<f64>,
    /// CPU time of all nodes for 1,000 parcels read, in milliseconds.
    pub(crate) cpu_ms_per_1000_parcels: Option<f64>,
    /// CPU time of all nodes for each transaction that was offered, in milliseconds.
    pub(crate) cpu_ms_per_transaction: Option<f64>,
    /// CPUs that all nodes used together, in the mean.
    pub(crate) cpus: f64,
    /// To encode a parcel, in nanoseconds, of those that were timed.
    pub(crate) encode_ns: Option<f64>,
    /// To decode one.
    pub(crate) decode_ns: Option<f64>,
}

impl Figures {
    /// The figures of a run.
    pub(crate) fn of(account: &Account) -> Self {
        let seconds = account.duration.as_secs_f64();
        let entries = account.nodes.iter().map(|node| node.offering.entries);
        let host = account.nodes.get(usize::from(GENERATOR));
        let host = host.map(|node| node.offering).unwrap_or_default();
        let least = entries.min().unwrap_or_default();
        let figures = Self::from_counts(
            &host,
            least,
            &account.offering(),
            &account.total(),
            seconds,
            account.codec(),
        );
        Self {
            came_back_deviation: deviation(&account.seconds, seconds as u64),
            ..figures
        }
    }

    fn from_counts(
        host: &Counters,
        least: u64,
        offering: &Counters,
        total: &Counters,
        seconds: f64,
        codec: CodecTime,
    ) -> Self {
        let per_s = |count: u64| count as f64 / seconds.max(f64::MIN_POSITIVE);
        let received = total.messages_in;
        let bytes_per_parcel = ratio(total.bytes_out, total.parcels_out);
        let payload = ratio(total.payload_in, total.parcels_in);
        Self {
            offered_per_s: per_s(host.offered),
            eps_host: per_s(host.entries),
            eps_least: per_s(least),
            eps_sum: per_s(offering.entries),
            came_back_deviation: None,
            tps_host: per_s(host.transactions),
            parcels_per_s: per_s(offering.parcels_in),
            bytes_per_s: per_s(offering.bytes_in),
            parcels_per_message: ratio(total.parcels_out, total.made),
            bytes_per_message: ratio(total.bytes_out, total.made),
            bytes_per_parcel,
            overhead_per_parcel: bytes_per_parcel
                .zip(payload)
                .map(|(all, payload)| all - payload),
            bytes_per_write: ratio(total.bytes_out, total.writes),
            parcels_per_write: ratio(total.parcels_out, total.writes),
            duplicate_share: ratio(total.duplicates, received),
            drop_share: ratio(total.dropped_full, total.queued_in),
            cpu_ms_per_1000_parcels: ratio(total.cpu_ns, total.parcels_in).map(|ns| ns / 1000.0),
            cpu_ms_per_transaction: ratio(total.cpu_ns, total.offered).map(|ns| ns / 1e6),
            cpus: per_s(offering.cpu_ns) / 1e9,
            encode_ns: ratio(codec.encode_ns, codec.parcels),
            decode_ns: ratio(codec.decode_ns, codec.parcels),
        }
    }
}

/// Of seconds in which enough was offered that one entry more or less is no spike, until the load ends.
fn deviation(seconds: &[NodeSecond], until: u64) -> Option<f64> {
    let host = seconds.iter().filter(|row| row.node == GENERATOR);
    let offering = host.filter(|row| row.second < until && row.counters.offered >= LEAST_OFFERED);
    let shares = offering.map(|row| row.counters.entries as f64 / row.counters.offered as f64);
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        count += 1.0;
        sum += share;
        squares += share * share;
    }
    let mean = sum / count;
    (count > 1.0).then(|| ((squares - sum * mean) / (count - 1.0)).max(0.0).sqrt())
}

const LEAST_OFFERED: u64 = 50;

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::super::account::Spread;
    use super::*;

    /// 200, 100 and 0 of 100 came back; what is of other nodes, of few entries or of the drain shows nothing.
    #[test]
    fn the_deviation_of_what_came_back_is_that_of_the_host_s_seconds_under_load() {
        let row = |second, node, offered, entries| NodeSecond {
            second,
            node,
            planned: offered,
            counters: Counters {
                offered,
                entries,
                ..Counters::default()
            },
            queued: 0,
            links: 0,
            latency: Spread::default(),
            lateness: Spread::default(),
        };
        let mut rows = vec![
            row(0, 0, 100, 200),
            row(1, 0, 100, 100),
            row(2, 0, 100, 0),
            row(0, 1, 100, 900),
            row(3, 0, 10, 900),
            row(4, 0, 100, 900),
        ];
        assert_eq!(deviation(&rows, 4), Some(1.0));
        rows.truncate(1);
        assert_eq!(deviation(&rows, 4), None);
    }

    /// The figures that the study of 2020 compared, re-measured for V11 with the original library: it
    /// wrote the length of a parcel and the parcel in two calls, and counted calls.
    #[test]
    fn bytes_per_parcel_do_not_depend_on_the_number_of_write_calls() {
        let counts = |writes: u64| Counters {
            parcels_out: 1000,
            parcels_in: 1000,
            bytes_out: 260_000,
            bytes_in: 260_000,
            payload_in: 251_000,
            writes,
            ..Counters::default()
        };
        let figures = |writes| {
            let counts = counts(writes);
            Figures::from_counts(&counts, 0, &counts, &counts, 1.0, CodecTime::default())
        };
        let (two_calls, one_call) = (figures(2000), figures(1000));
        assert_eq!(
            two_calls.bytes_per_write,
            Some(130.0),
            "half, and so it was published"
        );
        assert_eq!(one_call.bytes_per_write, Some(260.0));
        for figures in [two_calls, one_call] {
            assert_eq!(figures.bytes_per_parcel, Some(260.0));
            assert_eq!(figures.overhead_per_parcel, Some(9.0));
        }
    }
}
