//! The connection to the NATS server.

use std::fmt::Display;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream;
use async_nats::jetstream::object_store::{self, ObjectStore};
use async_nats::{Client, ConnectOptions, ServerAddr, Subscriber};

use crate::message::{Outgoing, bucket};

/// What goes wrong between machines.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The server cannot be reached.
    #[error(
        "cannot reach the NATS server at {url}: {problem}; start one there (`nats-server -js`), or name another with --nats"
    )]
    Bus {
        /// Its address, without a password.
        url: String,
        /// Why.
        problem: String,
    },
    /// Too few workers, or one that does not take part.
    #[error("{0}")]
    Workers(String),
    /// A folder cannot be read or written.
    #[error("{what}")]
    Folder {
        /// What was tried.
        what: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// The object store of the server refuses.
    #[error(
        "the object store of the NATS server: {0}; it needs JetStream (`nats-server -js`) and room on its disk"
    )]
    Store(String),
    /// The server is away, and the load is over.
    #[error(
        "the NATS server is away, and the load of run {0} is over; its workers keep their folders and bring them to the \
         server when it is back: then `txgen fleet --fetch {0} --nats URL --out DIR`, and `txgen merge`"
    )]
    Away(String),
    /// The user asked to stop before the load began.
    #[error("interrupted before the load began")]
    Interrupted,
}

impl FleetError {
    pub(crate) fn store(error: impl Display) -> Self {
        Self::Store(error.to_string())
    }
}

/// A connection that comes back by itself.
#[derive(Debug, Clone)]
pub struct Bus {
    client: Client,
    store: jetstream::Context,
}

impl Bus {
    /// Connects; `name` is what the server's operator sees.
    ///
    /// # Errors
    /// When the server does not answer within 5 s.
    pub async fn connect(url: &str, name: &str) -> Result<Self, FleetError> {
        let options = ConnectOptions::new()
            .name(name)
            .connection_timeout(PATIENCE);
        let client = options
            .connect(url)
            .await
            .map_err(|error| FleetError::Bus {
                url: without_password(url),
                problem: error.to_string(),
            })?;
        Ok(Self {
            store: jetstream::new(client.clone()),
            client,
        })
    }

    /// Whether the connection is there now.
    pub fn is_up(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    pub(crate) async fn subscribe(&self, subject: String) -> Result<Subscriber, FleetError> {
        let subscribed = self.client.subscribe(subject).await;
        subscribed.map_err(|error| FleetError::Workers(error.to_string()))
    }

    /// Publishes; while the connection is down it waits in the client.
    pub(crate) async fn publish(&self, message: Outgoing) {
        let (subject, payload) = (message.subject, message.payload.into());
        // It fails only when the client was closed, and then there is no receiver.
        let _ = match message.reply {
            Some(reply) => {
                self.client
                    .publish_with_reply(subject, reply, payload)
                    .await
            }
            None => self.client.publish(subject, payload).await,
        };
    }

    /// The folders of a run, made if it is not there.
    pub(crate) async fn folders(&self, run: &str) -> Result<ObjectStore, FleetError> {
        let config = object_store::Config {
            bucket: bucket(run),
            description: Some("run folders of txgen's workers".to_owned()),
            ..object_store::Config::default()
        };
        let made = self.store.create_object_store(config).await;
        made.map_err(FleetError::store)
    }

    /// Removes the folders of a run.
    pub(crate) async fn forget(&self, run: &str) {
        // What stays is found by `nats object ls`, and costs no run.
        let _ = self.store.delete_object_store(bucket(run)).await;
    }

    /// Sends what is still in the client.
    pub(crate) async fn flush(&self) {
        let _ = tokio::time::timeout(PATIENCE, self.client.flush()).await;
    }
}

/// An address as it may be printed.
fn without_password(url: &str) -> String {
    let address = url.parse::<ServerAddr>();
    address.map_or_else(
        |_| "an address that is none".to_owned(),
        |it| format!("{}://{}:{}", it.scheme(), it.host(), it.port()),
    )
}

/// How long an answer of the server is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_tokens_are_not_printed() {
        for (url, shown) in [
            ("nats://127.0.0.1:4222", "nats://127.0.0.1:4222"),
            ("nats://user:secret@bus:4222", "nats://bus:4222"),
            ("tls://token@bus", "tls://bus:4222"),
            ("secret@bus:4222", "nats://bus:4222"),
            ("secret@bus:port", "an address that is none"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
