//! What the original forgets to check.

use std::collections::HashSet;

use super::{Details, Input, Operation, Output, Proof, Transaction};
use crate::condition::{Fulfillment, Kind};
use crate::error::{Class, Refusal};
use crate::json::{Integer, Value};
use crate::keys::PublicKey;

/// The checks of [`Mode::Strict`](crate::Mode::Strict) beyond those of encodings.
pub(super) fn check(transaction: &Transaction) -> Result<(), Refusal> {
    for part in [transaction.asset_data(), Some(transaction.metadata())] {
        require(
            part.is_none_or(has_small_integers),
            "an integer beyond 64 bits",
        )?;
    }
    for input in &transaction.inputs {
        check_input(input, transaction.operation)?;
    }
    if transaction.operation == Operation::Transfer {
        require(
            is_id(transaction.transfer_asset()),
            "asset.id is not 64 hexadecimal digits",
        )?;
    }
    require(!transaction.outputs.is_empty(), "no outputs")?;
    let bodies = transaction.body.get("outputs").and_then(Value::as_array);
    for (output, body) in transaction.outputs.iter().zip(bodies.unwrap_or_default()) {
        check_output(output, body)?;
    }
    Ok(())
}

fn require(holds: bool, otherwise: &str) -> Result<(), Refusal> {
    if holds {
        return Ok(());
    }
    let text = format!("strict: {otherwise}");
    Err(Refusal::new(Class::ValidationError, text))
}

fn has_small_integers(value: &Value) -> bool {
    match value {
        Value::Integer(Integer::Big(_)) => false,
        Value::Array(items) => items.iter().all(has_small_integers),
        Value::Object(object) => object.iter().all(|(_, value)| has_small_integers(value)),
        _ => true,
    }
}

fn is_id(text: &str) -> bool {
    text.parse::<super::Id>().is_ok()
}

fn check_input(input: &Input, operation: Operation) -> Result<(), Refusal> {
    let owners: Vec<PublicKey> = input
        .owners_before
        .iter()
        .filter_map(|owner| owner.parse().ok())
        .collect();
    require(
        !owners.is_empty() && owners.len() == input.owners_before.len(),
        "owners_before must be keys, and at least one",
    )?;
    let Proof::Signed(fulfillment) = &input.proof else {
        return Ok(());
    };
    let mut signers = Vec::new();
    require(
        collect_signers(fulfillment, &mut signers),
        "a fulfillment of another kind than ed25519 and threshold",
    )?;
    match operation {
        Operation::Create => require(
            Details::all_of(&owners).is_some_and(|all| all.condition() == fulfillment.condition()),
            "the fulfillment is not one of all owners before",
        ),
        Operation::Transfer => {
            let owners: HashSet<PublicKey> = owners.into_iter().collect();
            require(
                signers.iter().all(|signer| owners.contains(signer)),
                "signed by someone who is no owner before",
            )
        }
    }?;
    require(
        input
            .fulfills
            .as_ref()
            .is_none_or(|link| is_id(&link.transaction_id)),
        "transaction_id is not 64 hexadecimal digits",
    )
}

/// Collects the keys that sign; `false` when there are other kinds.
fn collect_signers(fulfillment: &Fulfillment, signers: &mut Vec<PublicKey>) -> bool {
    match fulfillment {
        Fulfillment::Ed25519(signed) => {
            signers.push(PublicKey(signed.public_key));
            true
        }
        Fulfillment::Threshold(threshold) => {
            let known = |kind| matches!(kind, Kind::Ed25519 | Kind::Threshold);
            threshold
                .conditions
                .iter()
                .all(|inner| known(inner.kind) && inner.subtypes.iter().all(known))
                && threshold
                    .fulfillments
                    .iter()
                    .all(|inner| collect_signers(inner, signers))
        }
        _ => false,
    }
}

fn check_output(output: &Output, body: &Value) -> Result<(), Refusal> {
    let amount = body.get("amount").and_then(Value::as_str);
    require(
        amount.is_some_and(|digits| !digits.starts_with('0')),
        "an amount with leading zeros",
    )?;
    require(
        output.details.is_spendable(),
        "a threshold above the number of its conditions",
    )?;
    let uri = body
        .get("condition")
        .and_then(|condition| condition.get("uri"))
        .and_then(Value::as_str);
    require(
        uri == Some(&output.condition().to_string()),
        "condition.uri is not that of condition.details",
    )?;
    let named: HashSet<&str> = output
        .public_keys
        .iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let keys = output.details.keys();
    require(
        named.len() == keys.len()
            && keys
                .iter()
                .all(|key| named.contains(key.to_string().as_str())),
        "public_keys are not the keys of condition.details",
    )
}
