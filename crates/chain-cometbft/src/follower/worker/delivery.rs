//! From an answer to an event.

use std::time::Duration;

use pacing::Nanos;
use tokio::time::Instant;

use super::{BlockWithoutCodes, FollowerWorker, Last, WITHHELD_LIMIT};
use crate::client::{BlockCodes, BlockContent};
use crate::follower::fetch::{Fetched, Found};
use crate::follower::wake::Loss;
use rpc::{ClientError, FollowError, FollowEvent, FollowedBlock};

impl<C: Fn() -> Nanos + Send> FollowerWorker<C> {
    pub(super) fn on_fetched(&mut self, height: u64, fetched: Fetched) {
        self.buffer = fetched.buffer;
        match fetched.found {
            Found::Block(block) => self.on_block(block),
            Found::Codes(block, codes) => self.on_codes(block, codes),
            Found::Absent(status, said) => {
                if status.latest_block_height < height {
                    // It was announced and is not there: the announcement came from another node,
                    // or from a chain that is gone. `learn` tells which.
                    let known = self.announced.latest();
                    self.learn(&status, known);
                } else {
                    self.learn(&status, 0);
                    self.withhold(height, &said);
                }
                self.fetch_at = Instant::now() + self.fetch_backoff.pause();
            }
            Found::Unknown(error) => {
                self.lose(Loss::of_block(&error));
                self.fetch_at = Instant::now() + self.fetch_backoff.pause();
            }
        }
    }

    /// A block that the node has by its own account was not given, and it said this instead.
    fn withhold(&mut self, height: u64, said: &str) {
        self.withheld += 1;
        // It may be gone by now: then the next one is asked for.
        if self.withheld >= WITHHELD_LIMIT && self.next == Some(height) {
            let reason = format!("it has block {height} and does not give it: {said}");
            self.lose(Loss::unread(reason));
        }
    }

    fn on_block(&mut self, block: Box<BlockContent>) {
        self.withheld = 0;
        if let Err(error) = self.follows(&block) {
            return self.fail(error);
        }
        self.fetch_backoff.reset();
        if !self.options.codes {
            self.deliver(*block, None);
        } else if block.hashes.is_empty() {
            self.deliver(*block, Some(BlockCodes::default()));
        } else {
            let wait = match self.is_asked_at_once(&block) {
                true => Duration::ZERO,
                false => HEADER_WAIT,
            };
            self.hold(block, wait);
        }
    }

    /// Whether the results of a block are asked for without waiting for the header of the next one.
    pub(super) fn is_asked_at_once(&self, block: &BlockContent) -> bool {
        self.results && block.hashes.len() <= FEW_TXS
    }

    fn hold(&mut self, block: Box<BlockContent>, wait: Duration) {
        let ask_at = Instant::now() + wait;
        self.held = Some(BlockWithoutCodes { block, ask_at });
    }

    fn on_codes(
        &mut self,
        block: Box<BlockContent>,
        codes: Result<Option<BlockCodes>, ClientError>,
    ) {
        let codes = match codes {
            Ok(codes) => codes,
            Err(error) => {
                self.refusals += 1;
                let (limit, pause) = match &error {
                    // The results are saved a moment after the block.
                    ClientError::Rpc { .. } => (REFUSALS_LIMIT, RESULTS_PAUSE),
                    error if error.is_from_node() => (0, Duration::ZERO),
                    error => {
                        self.lose(Loss::of(error));
                        (BREAKS_LIMIT, self.fetch_backoff.pause())
                    }
                };
                if self.refusals < limit {
                    return self.hold(block, pause);
                }
                self.results &= !error.is_from_node();
                let (height, reason) = (block.height, error.to_string());
                self.tell(FollowEvent::CodesUnavailable { height, reason });
                None
            }
        };
        self.refusals = 0;
        self.fetch_backoff.reset();
        self.deliver(*block, codes);
    }

    /// Checks a block against the one delivered before it.
    fn follows(&self, block: &BlockContent) -> Result<(), FollowError> {
        let Some(last) = &self.last else {
            return Ok(());
        };
        if last.chain_id != block.chain_id {
            return Err(FollowError::OtherChain {
                before: last.chain_id.clone(),
                now: block.chain_id.clone(),
                latest: block.height,
            });
        }
        let known = last.hash.is_some() && block.last_hash.is_some();
        if known && last.height + 1 == block.height && last.hash != block.last_hash {
            return Err(FollowError::Replaced {
                height: block.height,
            });
        }
        Ok(())
    }

    fn deliver(&mut self, block: BlockContent, codes: Option<BlockCodes>) {
        let height = block.height;
        let heard = self.announced.first_of(height);
        let observed = heard.map_or_else(|| (self.clock)(), |heard| heard.at);
        self.last_observed = observed.max(self.last_observed);
        self.announced.forget_to(height);
        self.next = Some(height + 1);
        self.last = Some(Last {
            height,
            hash: block.hash,
            chain_id: block.chain_id,
        });
        self.behind |= self.announced.latest() > height;
        let codes_known = codes.is_some();
        let codes = codes.unwrap_or_default();
        self.tell(FollowEvent::Block(FollowedBlock {
            height,
            header_time: block.header_time,
            observed: self.last_observed,
            resolution: heard.and_then(|heard| heard.resolution),
            hashes: block.hashes,
            codes: codes.codes,
            codespaces: codes.codespaces,
            codes_known,
            gas: codes.gas,
            bytes: block.bytes,
            proposer: block.proposer,
        }));
        self.tell_if_caught_up();
    }

    pub(super) fn tell_if_caught_up(&mut self) {
        let Some(next) = self.next else { return };
        if self.behind && next > self.announced.latest() {
            self.behind = false;
            self.tell(FollowEvent::CaughtUp {
                height: self.announced.latest(),
            });
        }
    }
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
