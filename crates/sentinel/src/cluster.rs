//! One limit for several sentinels: reports over NATS, and what this one may send.
//!
//! The division is `cluster`'s. Here are the bus, the clients' hashes and the write lane. Without the bus the program goes
//! on with an equal part of the limit; it never waits for it.

use std::collections::HashMap;
use std::hash::{Hash as _, Hasher as _};
use std::path::Path;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Subscriber};
use cluster::{Activity, Division, Member, Report};
use fairq::ClientKey;
use futures_util::StreamExt as _;
use pacing::Rate;
use sha2::{Digest as _, Sha256};
use siphasher::sip::SipHasher24;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::clock::Clock;
use crate::config::Config;
use crate::lane::{ClientDemand, Lane};

/// A part in a cluster.
pub(crate) struct Part {
    lane: Lane,
    clock: Clock,
    member: Member,
    key: [u8; 16],
    url: String,
    subject: String,
    max_req: Rate,
    said: Option<(usize, usize, bool)>,
}

/// How long the last report may take.
const GOODBYE: Duration = Duration::from_millis(300);

/// Why the cluster cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The file of `cluster.key_file` cannot be read.
    #[error("cannot read {file} (cluster.key_file)")]
    File {
        /// Its path.
        file: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// It is too short to be a secret.
    #[error(
        "{file} (cluster.key_file) has {bytes} bytes, and a key 16 or more; all sentinels of the cluster have the same \
         file, made for instance by `openssl rand -hex 32`"
    )]
    Short {
        /// Its path.
        file: String,
        /// Bytes in it.
        bytes: usize,
    },
}

impl Part {
    /// The part that the configuration asks for; none without `cluster.nats`.
    ///
    /// # Errors
    /// The key cannot be had.
    pub(crate) fn new(
        config: &Config,
        lane: Lane,
        clock: Clock,
        id: u64,
    ) -> Result<Option<Self>, ClusterError> {
        let settings = &config.cluster;
        let (Some(url), Some(file)) = (&settings.nats, &settings.key_file) else {
            return Ok(None);
        };
        let key = read_key(Path::new(file))?;
        Ok(Some(Self {
            lane,
            member: Member::new(clock.now(), id, config.fair.max_req.as_f64()),
            clock,
            subject: subject(&key),
            key,
            url: url.clone(),
            max_req: config.fair.max_req,
            said: None,
        }))
    }

    /// Takes part until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        self.tick();
        let options = ConnectOptions::new()
            .name("sentinel")
            .retry_on_initial_connect()
            // What it would log, `say` does.
            .event_callback(|_| std::future::ready(()));
        let connected = options.connect(&self.url).await;
        let bus = match connected {
            Ok(client) => subscribed(client, &self.subject).await,
            Err(error) => Err(error.to_string()),
        };
        match bus {
            Ok((client, reports)) => self.take_part(&client, reports, &stop).await,
            // The address is none; the limit is this sentinel's own.
            Err(reason) => {
                warn!(
                    reason,
                    "the cluster cannot be joined; fair.max_req holds here alone"
                );
                self.lane.set_ceiling(self.max_req, HashMap::new());
                stop.cancelled().await;
            }
        }
    }

    async fn take_part(
        &mut self,
        client: &Client,
        mut reports: Subscriber,
        stop: &CancellationToken,
    ) {
        let mut due = self.clock.now();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep_until(self.clock.instant(due)) => {
                    let report = self.tick();
                    due = self.clock.now().saturating_add(self.member.interval());
                    // It fails only when the client was closed.
                    let _ = client.publish(self.subject.clone(), report.encode().into()).await;
                }
                message = reports.next() => match message.map(|it| Report::decode(&it.payload)) {
                    Some(Ok(report)) => self.member.hear(self.clock.now(), report),
                    Some(Err(error)) => warn!(%error, subject = self.subject, "a message on the cluster's subject is ignored"),
                    None => break,
                }
            }
        }
        let last = self.member.leave().encode();
        let goodbye = async {
            client.publish(self.subject.clone(), last.into()).await?;
            anyhow::Ok(client.flush().await?)
        };
        // Whoever does not hear it finds this sentinel silent.
        let _ = tokio::time::timeout(GOODBYE, goodbye).await;
    }

    /// Computes what may be sent from now on; the report for the others.
    fn tick(&mut self) -> Report {
        let demands = self.lane.demands();
        let hashes: Vec<u64> = demands
            .iter()
            .map(|demand| hash(&self.key, demand.client))
            .collect();
        let activity = hashes.iter().zip(&demands);
        let activity = activity.map(|(client, demand)| activity_of(*client, demand));
        let (report, division) = self.member.tick(self.clock.now(), activity);
        let shared: HashMap<u64, f64> = division
            .parts
            .iter()
            .map(|part| (part.client, part.of_share))
            .collect();
        let parts = hashes.iter().zip(&demands);
        let parts = parts.filter_map(|(hash, demand)| Some((demand.client, *shared.get(hash)?)));
        let parts = parts.collect();
        let ceiling = Rate::from_f64(division.per_second).unwrap_or(self.max_req);
        self.lane.set_ceiling(ceiling, parts);
        self.say(&division);
        report
    }

    /// Logs who is there, when that changes.
    fn say(&mut self, division: &Division) {
        let Division {
            heard,
            silent,
            is_connected,
            ..
        } = *division;
        if self.said.replace((heard, silent, is_connected)) == Some((heard, silent, is_connected)) {
            return;
        }
        match is_connected {
            true => info!(sentinels = heard, silent, "the limit is shared"),
            false => info!(
                sentinels = heard + silent,
                "the NATS server is away; this sentinel has an equal part of the limit"
            ),
        }
    }
}

fn activity_of(client: u64, demand: &ClientDemand) -> Activity {
    Activity {
        client,
        arrived: demand.arrived,
        waiting: demand.waiting,
        weight: u16::try_from(demand.weight.shares()).unwrap_or(u16::MAX),
    }
}

/// The hash of a client, which tells nothing to whoever has not the key.
fn hash(key: &[u8; 16], client: ClientKey) -> u64 {
    let mut hasher = SipHasher24::new_with_key(key);
    client.hash(&mut hasher);
    hasher.finish()
}

/// Where the sentinels that have a key meet.
fn subject(key: &[u8; 16]) -> String {
    let mut hasher = SipHasher24::new_with_key(key);
    "subject".hash(&mut hasher);
    format!("sentinel.{:016x}", hasher.finish())
}

fn read_key(file: &Path) -> Result<[u8; 16], ClusterError> {
    let name = || file.display().to_string();
    let text = std::fs::read(file).map_err(|source| ClusterError::File {
        file: name(),
        source,
    })?;
    let secret = text.trim_ascii();
    if secret.len() < 16 {
        return Err(ClusterError::Short {
            file: name(),
            bytes: secret.len(),
        });
    }
    let digest = Sha256::digest(secret);
    let [first, _] = digest.as_slice().as_chunks().0 else {
        unreachable!("a digest has 32 bytes")
    };
    Ok(*first)
}

async fn subscribed(client: Client, subject: &str) -> Result<(Client, Subscriber), String> {
    let reports = client.subscribe(subject.to_owned()).await;
    let reports = reports.map_err(|error| error.to_string())?;
    Ok((client, reports))
}
