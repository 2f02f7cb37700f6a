//! From a body to a transaction: the checks that need no ledger, in the original's order, then those that need one, and
//! the signatures.

use super::{Details, Input, Ledger, Link, MAX_AMOUNT, Operation, Output, Proof, Transaction};
use crate::condition::{Batch, Condition, Fulfillment};
use crate::error::{Class, Error, Refusal};
use crate::json::{Object, Value, default_text, parse};
use crate::schema;

impl Transaction {
    /// Reads a JSON text and checks, in this order: the id, the schema, keys and languages, and
    /// that fulfillments, keys and amounts can be read.
    ///
    /// # Errors
    /// [`Error::Json`] when the text is not JSON within the limits of
    /// [`parse`], [`Error::Refused`] when a check fails.
    pub fn from_text(text: &[u8]) -> Result<Self, Error> {
        Ok(Self::from_value(parse(text)?)?)
    }

    /// As [`Self::from_text`], from a value.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn from_value(body: Value) -> Result<Self, Refusal> {
        // The original crashes on a body that is no object.
        let id = match &body {
            Value::Object(object) => checked_id(object)?,
            _ => return Err(against_schema()),
        };
        if !schema::accepts(&body) {
            return Err(against_schema());
        }
        let Value::Object(body) = body else {
            return Err(against_schema());
        };
        let operation = operation(&body)?;
        check_names(&body)?;
        let inputs = items(&body, "inputs")
            .map(read_input)
            .collect::<Result<_, _>>()?;
        let outputs = items(&body, "outputs")
            .map(read_output)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            id,
            operation,
            inputs,
            outputs,
            body,
        })
    }
}

fn against_schema() -> Refusal {
    let why = "the body does not follow the schema of its operation";
    Refusal::new(Class::SchemaValidationError, why)
}

fn checked_id(body: &Object) -> Result<super::Id, Refusal> {
    let refused = |text| Err(Refusal::new(Class::InvalidHash, text));
    let Some(proposed) = body.get("id") else {
        return refused("No transaction id found!".to_owned());
    };
    let id = super::id_of(body);
    if proposed.as_str() == Some(&id.to_string()) {
        return Ok(id);
    }
    refused(format!(
        "The transaction's id '{}' isn't equal to the hash of its body, i.e. it's not valid.",
        proposed
            .as_str()
            .map_or_else(|| default_text(proposed), str::to_owned)
    ))
}

fn operation(body: &Object) -> Result<Operation, Refusal> {
    match body.get("operation").and_then(Value::as_str) {
        Some("CREATE") => Ok(Operation::Create),
        Some("TRANSFER") => Ok(Operation::Transfer),
        other => Err(Refusal::new(
            Class::ValidationError,
            format!("operation {} is not supported", other.unwrap_or_default()),
        )),
    }
}

fn items<'a>(body: &'a Object, name: &str) -> impl Iterator<Item = &'a Value> {
    body.get(name)
        .and_then(Value::as_array)
        .unwrap_or_default()
        .iter()
}

fn texts(value: Option<&Value>) -> Option<Vec<String>> {
    let items = value.and_then(Value::as_array)?;
    Some(
        items
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
    )
}

fn read_input(input: &Value) -> Result<Input, Refusal> {
    let proof = match input.get("fulfillment") {
        Some(Value::String(text)) => Proof::Signed(Fulfillment::from_uri(text).map_err(|_| {
            Refusal::new(
                Class::InvalidSignature,
                "Fulfillment URI couldn't been parsed",
            )
        })?),
        other => Proof::Unsigned(Details::read(other.unwrap_or(&Value::Null))?),
    };
    let owners_before = texts(input.get("owners_before")).ok_or_else(|| {
        Refusal::new(
            Class::ValidationError,
            "`owners_before` must be a list instance",
        )
    })?;
    Ok(Input {
        fulfills: input.get("fulfills").and_then(read_link),
        owners_before,
        proof,
    })
}

fn read_link(link: &Value) -> Option<Link> {
    Some(Link {
        transaction_id: link.get("transaction_id")?.as_str()?.to_owned(),
        output_index: link.get("output_index")?.as_u64()?,
    })
}

fn read_output(output: &Value) -> Result<Output, Refusal> {
    let details = output
        .get("condition")
        .and_then(|condition| condition.get("details"));
    let details = Details::read(details.unwrap_or(&Value::Null))?;
    let amount = output.get("amount").and_then(Value::as_str);
    Ok(Output {
        amount: read_amount(amount.unwrap_or_default())?,
        details,
        public_keys: texts(output.get("public_keys")),
    })
}

/// Up to 20 digits, which may be more than 64 bits hold.
fn read_amount(digits: &str) -> Result<u64, Refusal> {
    let refused = |text| Err(Refusal::new(Class::AmountError, text));
    match digits.parse::<u64>() {
        Ok(0) => refused("`amount` must be greater than 0".to_owned()),
        Ok(amount) if amount <= MAX_AMOUNT => Ok(amount),
        _ => refused(format!("`amount` must be <= {MAX_AMOUNT}")),
    }
}

/// The languages of MongoDB's text search.
const LANGUAGES: &str = "danish dutch english finnish french german hungarian italian norwegian \
    portuguese romanian russian spanish swedish turkish none da nl en fi fr de hu it nb pt ro ru es sv tr";

/// Checks keys and languages of a body that follows the schema, in the original's order.
fn check_names(body: &Object) -> Result<(), Refusal> {
    let parts = [
        (
            "asset",
            body.get("asset").and_then(|asset| asset.get("data")),
        ),
        ("metadata", body.get("metadata")),
    ];
    for (name, part) in parts {
        check_keys(name, part.unwrap_or(&Value::Null))?;
    }
    for (_, part) in parts {
        check_languages(part.unwrap_or(&Value::Null))?;
    }
    Ok(())
}

fn check_keys(part: &str, value: &Value) -> Result<(), Refusal> {
    match value {
        Value::Object(object) => object.iter().try_for_each(|(key, value)| {
            if key.starts_with('$') || key.contains(['.', '\0']) {
                return Err(Refusal::new(
                    Class::ValidationError,
                    format!(
                        "Invalid key name \"{key}\" in {part} object. The key name cannot \
                         contain characters \".\", \"$\" or null characters"
                    ),
                ));
            }
            check_keys(part, value)
        }),
        Value::Array(items) => items.iter().try_for_each(|item| check_keys(part, item)),
        _ => Ok(()),
    }
}

fn check_languages(value: &Value) -> Result<(), Refusal> {
    match value {
        Value::Object(object) => object.iter().try_for_each(|(key, value)| {
            if key != "language" {
                return check_languages(value);
            }
            let mut known = LANGUAGES.split(' ');
            if value
                .as_str()
                .is_some_and(|name| known.any(|language| language == name))
            {
                return Ok(());
            }
            Err(Refusal::new(
                Class::ValidationError,
                "a member `language` must name a language of MongoDB's text search",
            ))
        }),
        Value::Array(items) => items.iter().try_for_each(check_languages),
        _ => Ok(()),
    }
}

impl Transaction {
    /// Checks everything that is left after reading: existence, double spends, asset, sums and
    /// signatures, in the original's order.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn validate(&self, ledger: &impl Ledger) -> Result<(), Refusal> {
        let conditions = self.check_spending(ledger)?;
        self.check_signatures(&conditions)
    }

    /// All of [`Self::validate`] but the signatures. Gives the conditions that the inputs must
    /// fulfill, in their order; none on CREATE.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn check_spending(&self, ledger: &impl Ledger) -> Result<Vec<Condition>, Refusal> {
        self.effect().check(ledger)
    }

    /// Checks the signatures of all inputs, and on TRANSFER that they are those of the conditions
    /// given.
    ///
    /// # Errors
    /// [`Class::InvalidSignature`].
    pub fn check_signatures(&self, conditions: &[Condition]) -> Result<(), Refusal> {
        let digests = self.digests();
        let good = self
            .proofs(conditions)
            .zip(digests)
            .all(|(proof, digest)| proof.is_some_and(|proof| proof.verify(&digest)));
        if good { Ok(()) } else { Err(bad_signature()) }
    }

    /// The 32 bytes that each input signs.
    pub fn digests(&self) -> Vec<[u8; 32]> {
        let links = self.inputs.iter().map(|input| input.fulfills.as_ref());
        super::digests(&self.body, links).collect()
    }

    /// The fulfillment of each input, if it is one of the condition wanted.
    fn proofs(&self, conditions: &[Condition]) -> impl Iterator<Item = Option<&Fulfillment>> {
        self.inputs.iter().enumerate().map(move |(index, input)| {
            let Proof::Signed(fulfillment) = &input.proof else {
                return None;
            };
            let wanted = self.operation == Operation::Create
                || conditions.get(index) == Some(&fulfillment.condition());
            wanted.then_some(fulfillment)
        })
    }
}

fn bad_signature() -> Refusal {
    Refusal::new(Class::InvalidSignature, "Transaction signature is invalid.")
}

/// The signatures of many transactions, checked together.
///
/// The caution at [`Batch`] about crafted signatures applies here too.
#[derive(Clone, Debug, Default)]
pub struct SignatureBatch {
    batch: Batch,
    transactions: Vec<Pending>,
}

#[derive(Clone, Debug)]
struct Pending {
    /// Where its signatures end in the batch.
    end: usize,
    /// Whether each input has a fulfillment of its condition.
    good: bool,
}

impl SignatureBatch {
    /// A batch without transactions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a transaction and the conditions from [`Transaction::check_spending`].
    pub fn push(&mut self, transaction: &Transaction, conditions: &[Condition]) {
        let digests = transaction.digests();
        let mut good = true;
        for (proof, digest) in transaction.proofs(conditions).zip(digests) {
            match proof {
                Some(proof) => proof.verify_later(&digest, &mut self.batch),
                None => good = false,
            }
        }
        let end = self.batch.len();
        self.transactions.push(Pending { end, good });
    }

    /// The verdict on every transaction, in the order they were added.
    pub fn verify(&self) -> Vec<Result<(), Refusal>> {
        let signatures = self.batch.verify();
        let mut start = 0;
        self.transactions
            .iter()
            .map(|pending| {
                let own = &signatures[start..pending.end];
                start = pending.end;
                if pending.good && own.iter().all(|&good| good) {
                    Ok(())
                } else {
                    Err(bad_signature())
                }
            })
            .collect()
    }
}
