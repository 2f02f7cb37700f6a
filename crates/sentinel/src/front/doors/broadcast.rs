//! A broadcast through the write lane.

use std::sync::Arc;

use bytes::Bytes;
use fairq::ClientKey;
use rpc::BroadcastMethod;
use sha2::{Digest, Sha256};

use super::answers::Failure;
use super::tx_response::TxResponse;
use crate::budget::Reservation;
use crate::front::Shared;
use crate::front::backend::{Backend as _, Lanes};
use crate::front::queue::WRITE_OVERHEAD;
use crate::lane::{Awaited, Outbox, Write, WriteAnswer};
use crate::refusal::Refusal;

/// Puts a broadcast of a client's connection into the write lane and waits for its answer. Dropped, it takes the write
/// back if it still waits.
pub(super) async fn broadcast(
    front: &Shared<Lanes>,
    (client, connection): (ClientKey, u64),
    (method, tx): (BroadcastMethod, Bytes),
    mut held: Reservation,
) -> Result<TxResponse, Failure> {
    let backend = &front.backend;
    backend.check_method(client, method.name())?;
    if !held.grow(WRITE_OVERHEAD) {
        return Err(Refusal::buffers_full().into());
    }
    let hash: [u8; 32] = Sha256::digest(&tx).into();
    let awaited = Awaited(Outbox::new());
    backend.submit(Write {
        client,
        connection,
        tag: 0,
        method,
        tx,
        reservation: held,
        outbox: Arc::clone(&awaited.0),
    })?;
    match awaited.answer().await {
        Some(WriteAnswer::Member(member)) => {
            TxResponse::read(&member, &hash).map_err(Failure::Ended)
        }
        Some(WriteAnswer::Refused(refusal)) => Err(refusal.into()),
        None => Err(Refusal::going_down().into()),
    }
}
