//! Every block of a node's chain, once, in order.

mod fetch;
mod source;
mod wake;

use pacing::Nanos;
use rpc::{ClientError, Endpoint, FollowOptions, Follower, FollowerWorker};
use tokio_util::sync::CancellationToken;

pub use self::source::CometbftSource;
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
) -> Result<(Follower, FollowerWorker<CometbftSource, C>), ClientError>
where
    C: Fn() -> Nanos + Send,
{
    let client = Client::with_options(endpoint, options.client())?;
    let source = CometbftSource::new(client, &options);
    Ok(FollowerWorker::new(source, options, clock, shutdown))
}
