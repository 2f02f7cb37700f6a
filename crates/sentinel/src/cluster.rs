//! One limit for several sentinels: reports over NATS, and what this one may send.
//!
//! The division is `cluster`'s. Here are the bus, the clients' hashes and the write lane. Without the bus the program goes
//! on with an equal part of the limit; it never waits for it.

use std::net::IpAddr;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, ServerAddr, Subscriber};
use cluster::{Activity, Division, INTERVAL, Member, Report, Unread};
use fairq::ClientKey;
use futures_util::{StreamExt as _, stream};
use hashbrown::HashMap;
use pacing::Rate;
use sha2::{Digest as _, Sha256};
use siphasher::sip::SipHasher24;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::clock::Clock;
use crate::config::Config;
use crate::files::{self, SettingError};
use crate::lane::{ClientDemand, Lane};

/// A part in a cluster.
pub(crate) struct Part {
    lane: Lane,
    clock: Clock,
    member: Member,
    key: [u8; 16],
    address: ServerAddr,
    subject: String,
    /// The members when that was last logged, and whether this sentinel was connected.
    said: (usize, usize, bool),
    /// What was last logged of messages that are ignored.
    ignored: String,
}

/// How long the last report may take.
const GOODBYE: Duration = Duration::from_millis(300);
/// How often the server is asked whether it is there.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// The longest file with a secret.
const MOST_KEY_BYTES: u64 = 1 << 20;
/// The bits before an IPv4 address that is mapped to IPv6.
const V4_OFFSET: u8 = 96;

impl Part {
    /// The part that the configuration asks for; none without `cluster.nats`. From now on the lane sends nothing until
    /// this sentinel knows how many there are.
    ///
    /// # Errors
    /// The address is none, or the key cannot be had.
    pub(crate) fn new(
        config: &Config,
        lane: Lane,
        clock: Clock,
        id: u64,
    ) -> Result<Option<Self>, SettingError> {
        let settings = &config.cluster;
        let (Some(url), Some(file)) = (&settings.nats, &settings.key_file) else {
            return Ok(None);
        };
        let address = url.parse::<ServerAddr>().map_err(|error| {
            let reason = format!("no address of a NATS server: {error}; write nats://HOST:PORT");
            SettingError::new("cluster.nats", url, reason)
        })?;
        let key = read_key(file);
        let key = key.map_err(|reason| SettingError::new("cluster.key_file", file, reason))?;
        lane.set_ceiling(Rate::ZERO, HashMap::new());
        Ok(Some(Self {
            lane,
            member: Member::new(clock.now(), id, config.fair.max_req.as_f64()),
            clock,
            subject: subject(&key),
            key,
            address,
            said: (0, 0, false),
            ignored: String::new(),
        }))
    }

    /// Takes part until `stop`; without the bus, with an equal part of the limit.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let joined = joined(self.address.clone(), self.subject.clone()).await;
        let joined = joined.inspect_err(|reason| warn!(%reason, "the cluster cannot be joined"));
        let (bus, reports) = joined.ok().unzip();
        let mut reports = stream::iter(reports).flatten();
        let mut due = self.clock.now();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep_until(self.clock.instant(due)) => {
                    let report = self.tick();
                    due = self.clock.now().saturating_add(INTERVAL);
                    // While the server is away they would gather, and all come at once when it is back.
                    let there = bus.as_ref().filter(|bus| bus.connection_state() == State::Connected);
                    if let (Some(bus), Some(report)) = (there, report) {
                        // It fails only when the client was closed.
                        let _ = bus.publish(self.subject.clone(), report.encode().into()).await;
                    }
                }
                Some(message) = reports.next() => self.hear(&message.payload),
            }
        }
        let Some(bus) = bus else { return };
        let last = self.member.leave().encode();
        let goodbye = async {
            bus.publish(self.subject.clone(), last.into()).await?;
            anyhow::Ok(bus.flush().await?)
        };
        // Sentinels that do not hear it find this one silent.
        let _ = tokio::time::timeout(GOODBYE, goodbye).await;
    }

    fn hear(&mut self, message: &[u8]) {
        let now = self.clock.now();
        let unread = match Report::decode(message) {
            Ok(report) => return self.member.hear(now, report),
            Err(unread) => unread,
        };
        if let Unread::OtherVersion { member } = unread {
            self.member.hear_of(now, member);
        }
        let reason = unread.to_string();
        if reason != self.ignored {
            warn!(
                reason,
                subject = self.subject,
                "a message of the cluster is ignored"
            );
            self.ignored = reason;
        }
    }

    /// Computes what may be sent from now on; the report for the others, if one is due.
    fn tick(&mut self) -> Option<Report> {
        let demands = self.lane.demands().into_iter();
        let mut demands: Vec<(u64, ClientDemand)> = demands
            .map(|demand| (hash(&self.key, demand.client), demand))
            .collect();
        demands.sort_unstable_by_key(|(client, _)| *client);
        let activity = demands.iter().map(|&(client, demand)| Activity {
            client,
            taken: demand.taken,
            is_refused: demand.is_refused,
            waiting: demand.waiting,
            weight: u16::try_from(demand.weight.shares()).unwrap_or(u16::MAX),
        });
        let (report, division) = self.member.tick(self.clock.now(), activity);
        let mut shared = division.parts.iter().peekable();
        let mut parts = HashMap::with_capacity(shared.len());
        for (client, demand) in &demands {
            while shared.next_if(|part| part.client < *client).is_some() {}
            if let Some(part) = shared.next_if(|part| part.client == *client) {
                parts.insert(demand.client, part.of_share);
            }
        }
        // Below the limit, it can only be too little to be a rate.
        let ceiling = Rate::from_f64(division.per_second).unwrap_or(Rate::ZERO);
        self.lane.set_ceiling(ceiling, parts);
        self.say(&division);
        report
    }

    /// Logs the members, when that changes and once it is known.
    fn say(&mut self, division: &Division) {
        let who = (division.heard, division.silent, division.is_connected);
        if division.per_second == 0.0 || std::mem::replace(&mut self.said, who) == who {
            return;
        }
        let (sentinels, silent, is_connected) = who;
        if is_connected {
            info!(sentinels, silent, "the limit is shared");
        } else {
            let sentinels = sentinels + silent;
            info!(
                sentinels,
                "the NATS server is away; this sentinel has an equal part of the limit"
            );
        }
    }
}

/// The hash of a client, which tells nothing without the key: SipHash-2-4 (Aumasson and Bernstein, 2012) of the 16 bytes
/// of its network's address, IPv4 as IPv4-mapped IPv6, and of the length of its prefix among those 128 bits. A change of
/// the hashes needs another version of reports (`cluster::Report`).
fn hash(key: &[u8; 16], client: ClientKey) -> u64 {
    let network = client.network();
    let (address, prefix) = match network.address() {
        IpAddr::V4(address) => (address.to_ipv6_mapped(), network.prefix() + V4_OFFSET),
        IpAddr::V6(address) => (address, network.prefix()),
    };
    let mut bytes = [prefix; 17];
    bytes[..16].copy_from_slice(&address.octets());
    SipHasher24::new_with_key(key).hash(&bytes)
}

/// Where the sentinels that have a key meet, whatever their versions.
fn subject(key: &[u8; 16]) -> String {
    let hash = SipHasher24::new_with_key(key).hash(b"subject\xff");
    format!("sentinel.{hash:016x}")
}

fn read_key(file: &str) -> Result<[u8; 16], String> {
    let text = files::read(file, MOST_KEY_BYTES)?;
    let secret = text.trim_ascii();
    if secret.len() < 16 {
        return Err(format!(
            "it has {} bytes, and a key 16 or more; all sentinels of the cluster have the same file, made for instance by \
             `openssl rand -hex 32`",
            secret.len()
        ));
    }
    Ok(*Sha256::digest(secret)
        .first_chunk()
        .expect("a digest has 32 bytes"))
}

/// The connection, which comes back by itself with the subscription. It fails only for an address that cannot be used.
async fn joined(address: ServerAddr, subject: String) -> anyhow::Result<(Client, Subscriber)> {
    let options = ConnectOptions::new()
        .name("sentinel")
        .retry_on_initial_connect()
        // A server that answers none of three is given up.
        .ping_interval(PING_INTERVAL)
        // What it would log, `say` does.
        .event_callback(|_| std::future::ready(()));
    let client = options.connect(address).await?;
    let reports = client.subscribe(subject).await?;
    Ok((client, reports))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use bytes::Bytes;
    use fairq::KeyScheme;
    use pacing::Nanos;
    use rpc::BroadcastMethod;
    use rustix::time::{ClockId, clock_gettime};

    use super::*;
    use crate::budget::Ledger;
    use crate::lane::{Outbox, Write, lane};
    use crate::shared_context::SharedContext;
    use crate::upstream::Nodes;

    /// By another implementation of SipHash-2-4, under the first 16 bytes of SHA-256 of this secret.
    #[test]
    fn hashes_and_the_meeting_point_are_those_of_every_build() {
        let digest = Sha256::digest(b"a secret of all of them");
        let key: [u8; 16] = digest[..16].try_into().unwrap();
        let of = |text: &str| hash(&key, KeyScheme::default().key(text.parse().unwrap()));
        assert_eq!(of("192.0.2.7"), 0x0c6f_a686_8f3f_1c75);
        assert_eq!(of("::ffff:192.0.2.7"), of("192.0.2.7"));
        assert_eq!(of("2001:db8:1:2:3::"), 0xf68a_b218_1d81_524c);
        let wider = KeyScheme::new(31, 64).unwrap();
        assert_ne!(
            hash(&key, wider.key("192.0.2.6".parse().unwrap())),
            of("192.0.2.6")
        );
        assert_eq!(subject(&key), "sentinel.9184d0b926630fb8");
    }

    /// What a part costs its sentinel: the lane's demands and shares, reports of its own and of two others, and the
    /// division. The clients are all at each of the three, or a third of them at each.
    #[test]
    #[ignore = "measures: cargo test --release -p sentinel --features cluster --lib ten_thousand -- --ignored --nocapture"]
    fn processor_time_of_a_part_with_ten_thousand_clients() {
        const TICKS: u32 = 60;
        for at_each in [10_000, 3_334] {
            let mut parts = [0, 1, 2].map(part);
            let (outbox, ledger) = (Outbox::new(), Ledger::new(0));
            let mut own = Duration::ZERO;
            for tick in 1..=TICKS {
                let mut reports = Vec::new();
                for (place, part) in (0..).zip(&mut parts) {
                    part.clock = Clock::started(INTERVAL.as_duration() * tick);
                    let first = place * ((10_000 - at_each) / 2);
                    (first..first + at_each)
                        .for_each(|client| write(&part.lane, client, &outbox, &ledger));
                    let began = processor_time();
                    reports.extend(part.tick().map(|report| report.encode()));
                    own += (processor_time() - began) * u32::from(place == 0);
                }
                for (place, part) in parts.iter_mut().enumerate() {
                    let began = processor_time();
                    reports.iter().for_each(|report| part.hear(report));
                    own += (processor_time() - began) * u32::from(place == 0);
                }
            }
            let (tick, interval) = (own / TICKS, INTERVAL.as_secs_f64());
            let share = 100.0 * tick.as_secs_f64() / interval;
            println!(
                "{at_each} of 10,000 clients at each: {share:.2} % of a core, {tick:?} a tick"
            );
        }
    }

    /// A member whose lane sends nothing.
    fn part(id: u64) -> Part {
        let mut config = Config::default();
        config.fair.queue_per_client = 2;
        let context = SharedContext::new(config, CancellationToken::new());
        let (nodes, events, _) = Nodes::start(context.clone()).unwrap();
        let limit = Rate::per_second(1_000).unwrap();
        Part {
            lane: lane(&context, nodes, events).unwrap().0,
            clock: context.clock,
            member: Member::new(Nanos::ZERO, id, limit.as_f64()),
            key: [7; 16],
            address: "nats://127.0.0.1:4222".parse().unwrap(),
            subject: String::new(),
            said: (0, 0, false),
            ignored: String::new(),
        }
    }

    fn write(lane: &Lane, client: u32, outbox: &Arc<Outbox>, ledger: &Ledger) {
        // Those that have two writes there are refused, and counted.
        let _ = lane.submit(Write {
            client: KeyScheme::default().key(Ipv4Addr::from(0x0a00_0000 + client).into()),
            connection: client.into(),
            tag: 0,
            method: BroadcastMethod::Sync,
            tx: Bytes::new(),
            reservation: ledger.nothing(),
            outbox: Arc::clone(outbox),
        });
    }

    fn processor_time() -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}
