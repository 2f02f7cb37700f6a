//! The methods: what each answers.

mod broadcast;
mod chain;
mod info;
mod search;
mod tendermint;

use std::net::SocketAddr;
use std::sync::Arc;

use wire::jsonrpc::{BroadcastMethod, RequestId};

use super::params::Args;
use super::table::Name;
use crate::chain::render;
use crate::events::bus::Outbox;
use crate::node::Node;

pub(crate) use broadcast::{broadcast, take_in};

/// The client of a call and its transport.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) address: SocketAddr,
    /// Where events go and under which id, if the caller has a WebSocket.
    pub(crate) events: Option<(&'a Outbox, &'a RequestId<'a>)>,
}

impl Caller<'_> {
    /// A client that no events can be sent to.
    pub(crate) fn over_http(address: SocketAddr) -> Self {
        Self {
            address,
            events: None,
        }
    }
}

/// Calls a method. Returns its result as JSON.
///
/// # Errors
/// The text that goes into `data` of an internal error.
pub(crate) async fn call(
    node: &Arc<Node>,
    name: Name,
    mut args: Args,
    caller: Caller<'_>,
) -> Result<Vec<u8>, String> {
    let tx = |method, mut args: Args| broadcast(node, method, args.take_bytes(0), caller.address);
    match name {
        Name::BroadcastTxAsync => tx(BroadcastMethod::Async, args).await,
        Name::BroadcastTxCommit => tx(BroadcastMethod::Commit, args).await,
        Name::BroadcastTxSync => tx(BroadcastMethod::Sync, args).await,
        Name::CheckTx => Ok(broadcast::check_tx(node, args.take_bytes(0)).await),
        Name::Subscribe | Name::Unsubscribe | Name::UnsubscribeAll => {
            subscription(node, name, &args, caller)
        }
        // These go through whole blocks.
        Name::Block
        | Name::BlockByHash
        | Name::BlockResults
        | Name::Tx
        | Name::TxSearch
        | Name::BlockSearch => node.read(move |node| read(node, name, &args)).await,
        _ => read(node, name, &args),
    }
}

/// A method that only reads.
fn read(node: &Node, name: Name, args: &Args) -> Result<Vec<u8>, String> {
    if node.config.rpc.dialect.is_0_31()
        && let Some(answer) = tendermint::read(node, name, args)
    {
        return answer;
    }
    match name {
        Name::NumUnconfirmedTxs => Ok(broadcast::num_unconfirmed_txs(node)),
        Name::UnconfirmedTxs => Ok(broadcast::unconfirmed_txs(node, args.maybe(0))),
        Name::Block => chain::block(node, args.maybe(0)),
        Name::BlockByHash => Ok(chain::block_by_hash(node, args.bytes(0))),
        Name::BlockResults => chain::block_results(node, args.maybe(0)),
        Name::Blockchain => chain::blockchain(node, args, render::block_meta),
        Name::Commit => chain::commit(node, args.maybe(0)),
        Name::Header => chain::header(node, args.maybe(0)),
        Name::HeaderByHash => Ok(chain::header_by_hash(node, args.bytes(0))),
        Name::ConsensusParams => chain::consensus_params(node, args.maybe(0)),
        Name::Validators => chain::validators(node, args),
        Name::Tx => search::tx(node, args.bytes(0), args.flag(1)),
        Name::TxSearch => search::tx_search(node, args),
        Name::BlockSearch => search::block_search(node, args),
        Name::AbciInfo => Ok(info::abci_info(node)),
        Name::AbciQuery => Ok(info::abci_query(node, args)),
        Name::Genesis => Ok(info::genesis(node)),
        Name::GenesisChunked => info::genesis_chunked(node, args.int(0)),
        Name::NetInfo => Ok(info::net_info()),
        Name::Status => Ok(info::status(node)),
        Name::ConsensusState => Ok(info::consensus_state(node)),
        Name::DumpConsensusState => Ok(info::dump_consensus_state(node)),
        Name::BroadcastEvidence => Err("no evidence was provided".to_owned()),
        // `health`; all others were called above.
        _ => Ok(b"{}".to_vec()),
    }
}

fn subscription(
    node: &Node,
    name: Name,
    args: &Args,
    caller: Caller<'_>,
) -> Result<Vec<u8>, String> {
    let query = args.text(0);
    match (name, caller.events) {
        (Name::Subscribe, Some((outbox, id))) => {
            node.bus.subscribe(caller.address, query, id, outbox)?;
        }
        (Name::Unsubscribe, _) => node.bus.unsubscribe(caller.address, query)?,
        _ => node.bus.unsubscribe_all(caller.address)?,
    }
    Ok(b"{}".to_vec())
}

/// Items on a page without `per_page`.
const DEFAULT_PER_PAGE: usize = 30;
/// Most items on a page.
const MAX_PER_PAGE: usize = 100;

/// How many items a page has.
fn per_page(wanted: Option<i64>) -> usize {
    match wanted.map(usize::try_from) {
        Some(Ok(count @ 1..)) => count.min(MAX_PER_PAGE),
        _ => DEFAULT_PER_PAGE,
    }
}

/// The items of a page: how many to skip and to take.
fn page(wanted: Option<i64>, per_page: usize, total: usize) -> Result<(usize, usize), String> {
    let Some(wanted) = wanted else {
        return Ok((0, per_page.min(total)));
    };
    let pages = total.div_ceil(per_page).max(1);
    match usize::try_from(wanted) {
        Ok(page @ 1..) if page <= pages => {
            let skip = (page - 1) * per_page;
            Ok((skip, per_page.min(total - skip)))
        }
        _ => Err(format!(
            "page should be within [1, {pages}] range, given {wanted}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_from_one() {
        assert_eq!(page(None, 30, 100), Ok((0, 30)));
        assert_eq!(page(Some(4), 30, 100), Ok((90, 10)));
        assert_eq!(page(Some(1), 30, 0), Ok((0, 0)));
        assert_eq!(
            page(Some(5), 30, 100).unwrap_err(),
            "page should be within [1, 4] range, given 5"
        );
        assert_eq!(
            page(Some(0), 30, 0).unwrap_err(),
            "page should be within [1, 1] range, given 0"
        );
        assert_eq!(
            (
                per_page(None),
                per_page(Some(-1)),
                per_page(Some(7)),
                per_page(Some(1000))
            ),
            (30, 30, 7, 100)
        );
    }
}
