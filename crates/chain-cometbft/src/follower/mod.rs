//! Every block of a node's chain, once, in order.

mod fetch;

use std::time::Duration;

use pacing::Nanos;
use rpc::{
    Backoff, BlockAnswer, BlockSource, ChainStatus, ClientError, Endpoint, FollowOptions,
    FollowedBlock, Follower, FollowerWorker, Loss, Query, Question, SourceBlock, SourceEvent,
    Transport, finished,
};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use self::fetch::{CodeSources, Fetched, Found, Wake, fetch_block, fetch_codes};
use crate::client::{BlockCodes, BlockContent, ByHash, Client, Naming, Status};

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
    follow_named::<ByHash, C>(endpoint, options, clock, shutdown)
}

/// As [`follow`], of a chain whose transactions have other names than their hashes.
///
/// # Errors
/// As [`follow`].
pub fn follow_named<N, C>(
    endpoint: &Endpoint,
    options: FollowOptions,
    clock: C,
    shutdown: CancellationToken,
) -> Result<(Follower, FollowerWorker<CometbftSource, C>), ClientError>
where
    N: Naming,
    C: Fn() -> Nanos + Send,
{
    let client = Client::with_options(endpoint, options.client())?;
    let source = CometbftSource::new(client, &options, |client, height, buffer| {
        Box::pin(fetch_block::<N>(client, height, buffer))
    });
    Ok(FollowerWorker::new(source, options, clock, shutdown))
}

/// Status, blocks and their codes by queries; announcements by a subscription.
pub struct CometbftSource {
    client: Client,
    wake: Wake,
    /// The highest block that the node is known to have.
    latest: u64,
    status: Option<Query<Result<Status, ClientError>>>,
    /// Asks for the block of a height, with a buffer.
    fetch_block: fn(Client, u64, Vec<u8>) -> Query<Fetched>,
    fetch: Option<Query<Fetched>>,
    codes: Codes,
    backoff: Backoff,
    buffer: Vec<u8>,
}

/// How the codes of executed transactions are found.
#[derive(Default)]
struct Codes {
    /// Whether they are asked for.
    wanted: bool,
    /// Whether results are: not any more when the node has refused them.
    results: bool,
    /// The block whose codes are to be found.
    held: Option<BlockWithoutCodes>,
    /// How often they were refused.
    refusals: u32,
}

/// A block whose codes are to be found.
struct BlockWithoutCodes {
    block: Box<BlockContent>,
    /// When they are asked for at the latest: the header of the next block answers before, for less.
    ask_at: Instant,
}

impl BlockSource for CometbftSource {
    fn ask(&mut self, question: Question) {
        let client = self.client.clone();
        match question {
            Question::Status(_) => {
                self.status = Some(Box::pin(async move { client.status().await }));
            }
            Question::Block(height) => {
                let buffer = std::mem::take(&mut self.buffer);
                self.fetch = Some((self.fetch_block)(client, height, buffer));
            }
        }
    }

    async fn next(&mut self) -> SourceEvent {
        loop {
            let codes_at = self.codes.due(self.latest);
            let asks_codes = codes_at.is_some();
            tokio::select! {
                biased;
                event = self.wake.next() => {
                    if let SourceEvent::Height(height) = event {
                        self.latest = self.latest.max(height);
                    }
                    return event;
                }
                answer = finished(&mut self.status) => {
                    let status = answer.map(|status| self.learn(&status));
                    return SourceEvent::Status(status.map_err(|error| Loss::of(&error)));
                }
                fetched = finished(&mut self.fetch) => {
                    if let Some(event) = self.on_fetched(fetched) {
                        return event;
                    }
                }
                () = sleep_until(codes_at.unwrap_or_else(Instant::now)), if asks_codes => {
                    self.ask_codes();
                }
            }
        }
    }
}

impl CometbftSource {
    fn new(
        client: Client,
        options: &FollowOptions,
        fetch_block: fn(Client, u64, Vec<u8>) -> Query<Fetched>,
    ) -> Self {
        let endpoint = client.endpoint().with_transport(Transport::Ws);
        Self {
            wake: Wake::new(endpoint, options.trust.clone(), options.max_backoff),
            latest: 0,
            status: None,
            fetch_block,
            fetch: None,
            codes: Codes {
                wanted: options.codes,
                results: true,
                ..Codes::default()
            },
            backoff: Backoff::new(options.max_backoff),
            client,
            buffer: Vec::new(),
        }
    }

    fn learn(&mut self, status: &Status) -> ChainStatus {
        self.latest = self.latest.max(status.latest_block_height);
        ChainStatus {
            chain_id: status.chain_id.clone(),
            latest: status.latest_block_height,
            earliest: status.earliest_block_height,
            ..ChainStatus::default()
        }
    }

    fn ask_codes(&mut self) {
        let Some(BlockWithoutCodes { block, .. }) = self.codes.held.take() else {
            return;
        };
        let sources = CodeSources {
            next_header: self.latest > block.height && !self.codes.are_asked_at_once(&block),
            results: self.codes.results,
        };
        let (client, buffer) = (self.client.clone(), std::mem::take(&mut self.buffer));
        self.fetch = Some(Box::pin(fetch_codes(client, block, sources, buffer)));
    }

    /// The events that follow from it; none while the codes of a block are still to be found.
    fn on_fetched(&mut self, fetched: Fetched) -> Option<SourceEvent> {
        self.buffer = fetched.buffer;
        let answer = match fetched.found {
            Found::Block(block) if self.codes.wanted && !block.hashes.is_empty() => {
                self.codes.begin(block);
                return None;
            }
            Found::Block(block) => {
                let codes = self.codes.wanted.then(BlockCodes::default);
                BlockAnswer::Found(content(*block, codes, None))
            }
            Found::Codes(block, Ok(codes)) => self.finish(*block, codes, None),
            Found::Codes(block, Err(error)) => return self.on_refused(block, &error),
            Found::Absent(status, said) => BlockAnswer::Absent(self.learn(&status), said),
            Found::Unknown(error) => BlockAnswer::Unknown(Loss::of_block(&error)),
        };
        Some(SourceEvent::Block(answer))
    }

    fn on_refused(&mut self, block: Box<BlockContent>, error: &ClientError) -> Option<SourceEvent> {
        self.codes.refusals += 1;
        let is_from_node = error.is_from_node();
        let (limit, pause) = match error {
            // The results are saved a moment after the block.
            ClientError::Rpc { .. } => (REFUSALS_LIMIT, RESULTS_PAUSE),
            _ if is_from_node => (0, Duration::ZERO),
            _ => (BREAKS_LIMIT, self.backoff.pause()),
        };
        if self.codes.refusals < limit {
            self.codes.hold(block, pause);
            return (!is_from_node).then(|| SourceEvent::Unanswered(Loss::of(error)));
        }
        self.codes.results &= !is_from_node;
        let answer = self.finish(*block, None, Some(error.to_string()));
        Some(SourceEvent::Block(answer))
    }

    fn finish(
        &mut self,
        block: BlockContent,
        codes: Option<BlockCodes>,
        unavailable: Option<String>,
    ) -> BlockAnswer {
        self.codes.refusals = 0;
        self.backoff.reset();
        BlockAnswer::Found(content(block, codes, unavailable))
    }
}

impl Codes {
    fn begin(&mut self, block: Box<BlockContent>) {
        let wait = if self.are_asked_at_once(&block) {
            Duration::ZERO
        } else {
            HEADER_WAIT
        };
        self.hold(block, wait);
    }

    fn hold(&mut self, block: Box<BlockContent>, wait: Duration) {
        let ask_at = Instant::now() + wait;
        self.held = Some(BlockWithoutCodes { block, ask_at });
    }

    /// Whether the results of a block are asked for without waiting for the header of the next one.
    fn are_asked_at_once(&self, block: &BlockContent) -> bool {
        self.results && block.hashes.len() <= FEW_TXS
    }

    /// When the codes of the block that is held may be asked for, of a node that has this height.
    fn due(&self, latest: u64) -> Option<Instant> {
        let held = self.held.as_ref()?;
        let has_header = self.refusals == 0 && held.block.height < latest;
        Some(if has_header {
            Instant::now()
        } else {
            held.ask_at
        })
    }
}

fn content(
    block: BlockContent,
    codes: Option<BlockCodes>,
    codes_unavailable: Option<String>,
) -> Box<SourceBlock> {
    let codes_known = codes.is_some();
    let codes = codes.unwrap_or_default();
    Box::new(SourceBlock {
        content: FollowedBlock {
            height: block.height,
            header_time: block.header_time,
            hashes: block.hashes,
            codes: codes.codes,
            codespaces: codes.codespaces,
            codes_known,
            gas: codes.gas,
            bytes: block.bytes,
            proposer: block.proposer,
            ..FollowedBlock::default()
        },
        chain_id: block.chain_id,
        hash: block.hash,
        last_hash: block.last_hash,
        codes_unavailable,
    })
}

/// The results of so many transactions are asked for at once: less than a hundred kilobytes.
const FEW_TXS: usize = 64;
/// How long the header of the next block is waited for before the results of a larger one are asked for.
const HEADER_WAIT: Duration = Duration::from_secs(2);
/// How often the codes of a block are asked for before they count as unavailable.
const REFUSALS_LIMIT: u32 = 40;
/// How often the way to the node may break before: some 3 s. That the block is there is known already.
const BREAKS_LIMIT: u32 = 6;
const RESULTS_PAUSE: Duration = Duration::from_millis(25);
