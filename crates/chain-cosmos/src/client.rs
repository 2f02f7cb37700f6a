//! The questions that a Cosmos SDK chain is asked before a run.

use chain_cometbft::Client;
use cosmos::{GasPrice, Prefix, query};
use rpc::ClientError;
use serde::Deserialize;

/// Why a chain cannot be loaded with transfers.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// It does not answer as a node does.
    #[error(transparent)]
    Query(#[from] ClientError),
    /// Its answer makes the load impossible: what is wrong and what to do.
    #[error("{0}")]
    Refused(String),
}

/// The gRPC queries of an SDK chain, carried by `abci_query`.
#[derive(Clone)]
pub struct ChainClient {
    client: Client,
}

/// The answer of `abci_query`.
#[derive(Deserialize)]
struct QueryAnswer {
    response: QueryResponse,
}

#[derive(Deserialize)]
struct QueryResponse {
    #[serde(default)]
    code: u32,
    #[serde(default)]
    codespace: String,
    #[serde(default)]
    log: String,
    value: Option<String>,
}

/// The answer of [`SIMULATE_IN_JSON`].
#[derive(Deserialize)]
struct Simulated {
    gas_info: GasInfo,
}

#[derive(Deserialize)]
struct GasInfo {
    gas_used: String,
}

/// The parameters of an `abci_query`.
fn query_hex(path: &str, request: &[u8]) -> String {
    let data = hex_simd::encode_to_string(request, hex_simd::AsciiCase::Lower);
    format!(r#"{{"path":"{path}","data":"{data}"}}"#)
}

impl ChainClient {
    /// Asks through this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Asks, and returns the reply or the chain's error.
    pub(crate) async fn ask(
        &self,
        path: &str,
        request: &[u8],
    ) -> Result<Result<Vec<u8>, String>, QueryError> {
        let params = query_hex(path, request);
        let answer: QueryAnswer = self.client.call("abci_query", &params).await?;
        let QueryResponse {
            code,
            codespace,
            log,
            value,
        } = answer.response;
        // Some versions call it "not found", as they do an account that there is not.
        if log.contains(NO_STATE) {
            return Err(refused(format!(
                "{} has no state of the chain to answer from ({log}): it was pruned, or restored from a snapshot and \
                 has executed no block since; wait for its next block, or give an endpoint that keeps states (pruning \
                 in its app.toml)",
                self.client.endpoint()
            )));
        }
        if log.contains(NOT_BEGUN) {
            return Err(refused(format!(
                "{} has executed no block yet ({log}); start again once its status shows one",
                self.client.endpoint()
            )));
        }
        if code != 0 {
            return Ok(Err(format!("{codespace}/{code} {log}")));
        }
        let value = value.unwrap_or_default();
        match base64_simd::STANDARD.decode_to_vec(value) {
            Ok(reply) => Ok(Ok(reply)),
            Err(_) => Ok(Err("a value that is not base64".into())),
        }
    }

    /// The least price of gas that the node takes; none where it gives none.
    pub async fn least_price(&self, denom: &str) -> Result<Option<GasPrice>, QueryError> {
        let Ok(reply) = self.ask(query::NODE_CONFIG, &[]).await? else {
            return Ok(None);
        };
        let prices = query::read_first_text(&reply).map_err(unusable)?;
        let prices = prices.split(',').filter_map(|price| price.parse().ok());
        let mut prices: Vec<GasPrice> = prices.collect();
        prices.sort_by_key(|price| price.denom != denom);
        Ok(prices.into_iter().next().filter(|price| price.atto > 0))
    }

    /// What addresses of the chain begin with.
    pub async fn prefix(&self, given: Option<Prefix>) -> Result<Prefix, QueryError> {
        if let Some(prefix) = given {
            return Ok(prefix);
        }
        let refusal = match self.ask(query::BECH32_PREFIX, &[]).await? {
            Ok(reply) => match query::read_first_text(&reply).and_then(Prefix::new) {
                Ok(prefix) => return Ok(prefix),
                Err(error) => error.to_string(),
            },
            Err(refusal) => refusal,
        };
        Err(refused(format!(
            "{} does not say what its addresses begin with ({refusal}); give it with --prefix, or check that this is \
             a Cosmos SDK chain",
            self.client.endpoint()
        )))
    }

    /// The denomination that is staked.
    pub async fn bond_denom(&self) -> Result<String, QueryError> {
        match self.ask(query::STAKING_PARAMS, &[]).await? {
            Ok(reply) => Ok(query::read_bond_denom(&reply).map_err(unusable)?.to_owned()),
            Err(refusal) => Err(refused(format!(
                "the chain does not say which coin is staked ({refusal}); say what to pay with --amount"
            ))),
        }
    }

    /// How much an account has.
    pub async fn balance(&self, address: &str, denom: &str) -> Result<u128, QueryError> {
        match self
            .ask(query::BALANCE, &query::balance_request(address, denom))
            .await?
        {
            Ok(reply) => Ok(query::read_balance(&reply).map_err(unusable)?.amount),
            Err(refusal) => Err(refused(format!("cannot ask what {address} has: {refusal}"))),
        }
    }

    /// What the chain knows of an account; `None` when it knows nothing.
    pub async fn account(&self, address: &str) -> Result<Option<query::Account>, QueryError> {
        let request = query::account_request(address);
        match self.ask(query::ACCOUNT, &request).await? {
            Ok(reply) => match query::Account::read(&reply) {
                Ok(account) => Ok(Some(account)),
                Err(error) => Err(refused(format!("{address}: {error}"))),
            },
            // `codes.NotFound`, as the SDK carries it over ABCI.
            Err(refusal) if refusal.contains("not found") => Ok(None),
            Err(refusal) => Err(refused(format!("cannot ask for {address}: {refusal}"))),
        }
    }

    /// The gas that a transaction uses.
    pub(super) async fn simulate(&self, tx: &[u8]) -> Result<u64, QueryError> {
        let request = query::simulate_request(tx);
        let refusal = match self.ask(query::SIMULATE, &request).await? {
            Ok(reply) => return query::read_gas_used(&reply).map_err(unusable),
            Err(refusal) => refusal,
        };
        // A node that serves neither gRPC nor REST knows only the older path, which answers in JSON.
        if refusal.contains("unknown query path")
            && let Ok(reply) = self.ask(SIMULATE_IN_JSON, tx).await?
            && let Ok(simulated) = serde_json::from_slice::<Simulated>(&reply)
            && let Ok(used) = simulated.gas_info.gas_used.parse()
        {
            return Ok(used);
        }
        Err(refused(format!(
            "the chain does not simulate the first transaction ({refusal}); give the gas with --gas, or correct what \
             it names"
        )))
    }
}

pub(super) fn refused(text: String) -> QueryError {
    QueryError::Refused(text)
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "a mapping of errors takes them by value"
)]
pub(super) fn unusable(error: cosmos::Error) -> QueryError {
    refused(error.to_string())
}

/// `handleQueryApp` of Cosmos SDK 0.50, baseapp/abci.go.
const SIMULATE_IN_JSON: &str = "/app/simulate";
/// `createQueryContext` of Cosmos SDK 0.50 and 0.53, baseapp/abci.go.
const NO_STATE: &str = "failed to load state at height";
/// In the same file.
const NOT_BEGUN: &str = "is not ready; please wait for first block";
