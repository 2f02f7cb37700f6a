//! Every block of a node's chain, once, in order.

mod announced;
mod fetch;
mod forecast;
mod wake;
mod worker;

use pacing::Nanos;
use rpc::{ClientError, Endpoint, FollowOptions, Follower};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use self::worker::FollowerWorker;
use crate::client::Client;

/// Prepares to follow a node's chain. Nothing happens until the caller runs the worker
/// ([`FollowerWorker::run`]), which ends with `shutdown` or with the [`Follower`].
///
/// New blocks are announced by a subscription to `NewBlockHeader` and, while there is none, by
/// polling; their content comes height by height from `block` and `block_results`. So nothing
/// depends on an event that may be lost, and no page cuts anything off.
///
/// `clock` is the only clock that stamps; it must never go backwards.
///
/// # Errors
/// [`ClientError::Setup`] when TLS is needed and cannot be set up.
pub fn follow<C>(
    endpoint: &Endpoint,
    options: FollowOptions,
    clock: C,
    shutdown: CancellationToken,
) -> Result<(Follower, FollowerWorker<C>), ClientError>
where
    C: Fn() -> Nanos + Send,
{
    let client = Client::with_options(endpoint, options.client())?;
    let (sender, events) = mpsc::channel(options.events.max(1));
    let worker = FollowerWorker::new(client, options, clock, sender, shutdown);
    Ok((Follower::new(events), worker))
}
