//! From an answer to an event.

use std::time::Duration;

use pacing::Nanos;
use tokio::time::Instant;

use super::{FollowerWorker, Last};
use crate::client::{BlockCodes, BlockContent, ClientError};
use crate::follower::fetch::{Fetched, Found};
use crate::follower::wake::Loss;
use crate::follower::{FollowError, FollowEvent, FollowedBlock};

impl<C: Fn() -> Nanos + Send> FollowerWorker<C> {
    pub(super) fn on_fetched(&mut self, height: u64, fetched: Fetched) {
        self.buffer = fetched.buffer;
        match fetched.result {
            Ok(Found::Block(block, codes)) => self.on_block(block, codes),
            Ok(Found::Absent(status)) => {
                if status.latest_block_height < height {
                    // It was announced and is not there: the announcement came from another node,
                    // or from a chain that is gone. `learn` tells which.
                    let known = self.announced.latest();
                    self.learn(&status, known);
                } else {
                    self.learn(&status, 0);
                }
                self.fetch_at = Instant::now() + self.fetch_backoff.pause();
            }
            Err(error) => {
                self.lose(Loss::of(&error));
                self.fetch_at = Instant::now() + self.fetch_backoff.pause();
            }
        }
    }

    fn on_block(
        &mut self,
        block: Box<BlockContent>,
        codes: Result<Option<BlockCodes>, ClientError>,
    ) {
        let codes = match codes {
            Ok(codes) => codes,
            Err(error) => {
                // The results are saved a moment after the block.
                self.refusals += 1;
                if self.refusals < REFUSALS_LIMIT {
                    self.fetch_at = Instant::now() + RESULTS_PAUSE;
                    return;
                }
                self.codes = false;
                let (height, reason) = (block.height, error.to_string());
                self.tell(FollowEvent::CodesUnavailable { height, reason });
                None
            }
        };
        if let Err(error) = self.follows(&block) {
            return self.fail(error);
        }
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
            let (before, now) = (last.chain_id.clone(), block.chain_id.clone());
            return Err(FollowError::OtherChain { before, now });
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
        let observed = self
            .announced
            .instant(height)
            .unwrap_or_else(|| (self.clock)());
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
        self.tell(FollowEvent::Block(FollowedBlock {
            height,
            header_time: block.header_time,
            observed: self.last_observed,
            hashes: block.hashes,
            codes: codes.unwrap_or_default().codes,
            codes_known,
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

/// How often the codes of a block are asked for before they count as unavailable.
const REFUSALS_LIMIT: u32 = 40;
const RESULTS_PAUSE: Duration = Duration::from_millis(25);
