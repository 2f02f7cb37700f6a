//! Blocks straight from JSON into hashes: no value tree, one buffer for all transactions.

use std::fmt;
use std::marker::PhantomData;

use rpc::{Gas, HeaderTime, number};
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, SeqAccess, Visitor};
use sha2::{Digest, Sha256};
use wire::encoding::decode_hash;

use super::{BlockCodes, BlockContent};

/// How a chain calls its transactions.
pub trait Naming: Send + 'static {
    /// The name of a transaction, by which a load knows its own.
    fn name(tx: &[u8]) -> [u8; 32];
}

/// By their SHA-256 hashes, as CometBFT does itself.
#[derive(Debug)]
pub struct ByHash;

impl Naming for ByHash {
    fn name(tx: &[u8]) -> [u8; 32] {
        Sha256::digest(tx).into()
    }
}

/// The result of `block`.
#[derive(Debug)]
pub(crate) struct BlockAnswer<N = ByHash> {
    /// `None` when the node has no block of this height.
    pub(crate) content: Option<BlockContent>,
    named: PhantomData<N>,
}

impl<'de, N: Naming> Deserialize<'de> for BlockAnswer<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let answer = RawAnswer::<N>::deserialize(deserializer)?;
        let named = PhantomData;
        let Some(block) = answer.block else {
            let content = None;
            return Ok(Self { content, named });
        };
        let RawHeader {
            chain_id,
            height,
            time,
            last_block_id,
            proposer_address,
        } = block.header;
        let header_time: HeaderTime = time.parse().map_err(de::Error::custom)?;
        let id = answer
            .block_meta
            .map_or(answer.block_id, |meta| meta.block_id);
        let content = BlockContent {
            height,
            chain_id,
            header_time,
            hash: decode_hash(id.hash.as_bytes()),
            last_hash: last_block_id.and_then(|id| decode_hash(id.hash.as_bytes())),
            proposer: proposer_address,
            hashes: block.data.txs.hashes,
            bytes: block.data.txs.bytes,
        };
        Ok(Self {
            content: Some(content),
            named,
        })
    }
}

#[derive(Deserialize)]
#[serde(bound = "N: Naming")]
struct RawAnswer<N> {
    #[serde(default)]
    block_id: RawId,
    /// Where the id is up to 0.32.
    block_meta: Option<RawMeta>,
    block: Option<RawBlock<N>>,
}

#[derive(Deserialize)]
struct RawMeta {
    block_id: RawId,
}

#[derive(Default, Deserialize)]
struct RawId {
    hash: String,
}

#[derive(Deserialize)]
#[serde(bound = "N: Naming")]
struct RawBlock<N> {
    header: RawHeader,
    data: RawData<N>,
}

#[derive(Deserialize)]
struct RawHeader {
    chain_id: String,
    #[serde(deserialize_with = "number")]
    height: u64,
    time: String,
    last_block_id: Option<RawId>,
    #[serde(default)]
    proposer_address: String,
}

#[derive(Deserialize)]
#[serde(bound = "N: Naming")]
struct RawData<N> {
    #[serde(default)]
    txs: Hashes<N>,
}

struct Hashes<N> {
    hashes: Vec<[u8; 32]>,
    bytes: u64,
    named: PhantomData<N>,
}

impl<N> Default for Hashes<N> {
    fn default() -> Self {
        Self {
            hashes: Vec::new(),
            bytes: 0,
            named: PhantomData,
        }
    }
}

impl<'de, N: Naming> Deserialize<'de> for Hashes<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HashesVisitor(PhantomData))
    }
}

struct HashesVisitor<N>(PhantomData<N>);

impl<'de, N: Naming> Visitor<'de> for HashesVisitor<N> {
    type Value = Hashes<N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of transactions in base64, or null")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Hashes<N>, E> {
        Ok(Hashes::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Hashes<N>, A::Error> {
        let mut hashes = Hashes::default();
        let mut scratch = Vec::new();
        while let Some(hash) = list.next_element_seed(TxSeed::<N> {
            scratch: &mut scratch,
            named: PhantomData,
        })? {
            hashes.hashes.push(hash);
            hashes.bytes += scratch.len() as u64;
        }
        Ok(hashes)
    }
}

/// Reads one transaction into the buffer that all share, and gives its name.
struct TxSeed<'a, N> {
    scratch: &'a mut Vec<u8>,
    named: PhantomData<N>,
}

impl<'de, N: Naming> DeserializeSeed<'de> for TxSeed<'_, N> {
    type Value = [u8; 32];

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<[u8; 32], D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<N: Naming> Visitor<'_> for TxSeed<'_, N> {
    type Value = [u8; 32];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a transaction in base64")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<[u8; 32], E> {
        self.scratch.clear();
        base64_simd::STANDARD
            .decode_append(text, self.scratch)
            .map_err(|_| E::custom("a transaction is not base64"))?;
        Ok(N::name(self.scratch))
    }
}

/// The result of `block_results`, of which only the codes matter: `txs_results` from 0.33 to CometBFT
/// 1.0, `results.deliver_tx` in 0.32, `results.DeliverTx` from 0.20 to 0.31 (`ResultBlockResults` in
/// `rpc/core/types/responses.go`, `ABCIResponses` in `state/store.go`).
#[derive(Debug)]
pub(crate) struct CodesAnswer {
    pub(crate) codes: BlockCodes,
}

impl<'de> Deserialize<'de> for CodesAnswer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default, deserialize_with = "codes")]
            txs_results: Option<BlockCodes>,
            results: Option<Responses>,
        }
        #[derive(Deserialize)]
        struct Responses {
            #[serde(default, alias = "DeliverTx", deserialize_with = "codes")]
            deliver_tx: Option<BlockCodes>,
        }
        let answer = Answer::deserialize(deserializer)?;
        let old = answer.results.and_then(|responses| responses.deliver_tx);
        match answer.txs_results.or(old) {
            Some(codes) => Ok(Self { codes }),
            None => Err(de::Error::custom(
                "there is neither txs_results nor results.DeliverTx",
            )),
        }
    }
}

/// A list that is there, also as null; [`CodesVisitor`] reads it.
fn codes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BlockCodes>, D::Error> {
    deserializer.deserialize_any(CodesVisitor).map(Some)
}

struct CodesVisitor;

impl<'de> Visitor<'de> for CodesVisitor {
    type Value = BlockCodes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of results, or null")
    }

    fn visit_unit<E: de::Error>(self) -> Result<BlockCodes, E> {
        Ok(BlockCodes::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<BlockCodes, A::Error> {
        let mut found = BlockCodes::default();
        let mut gas = Gas::default();
        // Amino writes null for a result whose fields are all zero.
        while let Some(result) = list.next_element::<Option<TxResult>>()? {
            let TxResult {
                code,
                codespace,
                wanted,
                used,
            } = result.unwrap_or_default();
            gas.wanted = gas.wanted.saturating_add(wanted);
            gas.used = gas.used.saturating_add(used);
            // Nearly every block has nothing but zeros: then there is no list.
            if code != 0 && found.codes.is_empty() {
                found.codes.resize(found.count, 0);
                found.codespaces.resize(found.count, "".into());
            }
            if code != 0 || !found.codes.is_empty() {
                found.codes.push(code);
                let space = match found.codespaces.last() {
                    Some(last) if **last == *codespace => last.clone(),
                    _ => codespace.into(),
                };
                found.codespaces.push(space);
            }
            found.count += 1;
        }
        found.gas = Some(gas);
        Ok(found)
    }
}

/// What was made of one transaction.
#[derive(Default, Deserialize)]
struct TxResult {
    #[serde(default)]
    code: u32,
    #[serde(default)]
    codespace: String,
    #[serde(
        default,
        rename = "gas_wanted",
        alias = "gasWanted",
        deserialize_with = "gas"
    )]
    wanted: u64,
    #[serde(
        default,
        rename = "gas_used",
        alias = "gasUsed",
        deserialize_with = "gas"
    )]
    used: u64,
}

/// What is not a count of gas, such as -1, is none; it is no reason to refuse the codes.
fn gas<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(number(deserializer).unwrap_or(0))
}

/// The result of `blockchain`, of which only the hashes over the results of the blocks before matter.
#[derive(Deserialize)]
pub(super) struct ResultsHash {
    block_metas: Vec<RawHashes>,
}

#[derive(Deserialize)]
struct RawHashes {
    header: RawResultsHash,
}

#[derive(Deserialize)]
struct RawResultsHash {
    #[serde(deserialize_with = "number")]
    height: u64,
    #[serde(default)]
    last_results_hash: String,
}

impl ResultsHash {
    /// That in the header of this height.
    pub(super) fn of(&self, height: u64) -> Option<[u8; 32]> {
        let mut headers = self.block_metas.iter().map(|meta| &meta.header);
        let header = headers.find(|header| header.height == height)?;
        decode_hash(header.last_results_hash.as_bytes())
    }
}

/// The hash over so many results that are all of code 0, without data and without gas: their leaves
/// are empty. RFC 6962's tree of SHA-256, `crypto/merkle/tree.go` and `types/results.go` of Tendermint
/// 0.31 to CometBFT 1.0.
pub(crate) fn hash_of_successes(count: usize) -> [u8; 32] {
    if count <= 1 {
        return Sha256::digest([LEAF]).into();
    }
    let left = count.next_power_of_two() / 2;
    let mut node = Sha256::new_with_prefix([INNER]);
    node.update(full_tree(left));
    node.update(hash_of_successes(count - left));
    node.finalize().into()
}

/// Of a power of two.
fn full_tree(count: usize) -> [u8; 32] {
    let mut hash: [u8; 32] = Sha256::digest([LEAF]).into();
    for _ in 0..count.trailing_zeros() {
        let node = Sha256::new_with_prefix([INNER]).chain_update(hash);
        hash = node.chain_update(hash).finalize().into();
    }
    hash
}

const LEAF: u8 = 0;
const INNER: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_becomes_hashes() {
        let text = r#"{"block_id":{"hash":""},"block":{"header":{"version":{"block":"11"},"chain_id":"c","height":"3","time":"2026-11-21T02:38:17.3Z","last_block_id":{"hash":"6FE13E79776B59F69B3B1395680717001A2C489CDF69AA57C98A7168398C42E0"},"proposer_address":"A5"},"data":{"txs":["YT1i","","YQ=="]},"evidence":{"evidence":[]}}}"#;
        let block = serde_json::from_str::<BlockAnswer>(text)
            .unwrap()
            .content
            .unwrap();
        let expected = [&b"a=b"[..], b"", b"a"].map(|tx| <[u8; 32]>::from(Sha256::digest(tx)));
        assert_eq!(block.hashes, expected);
        assert_eq!(
            (block.height, block.bytes, block.proposer.as_str()),
            (3, 4, "A5")
        );
        assert_eq!(
            (block.hash, block.last_hash.map(|hash| hash[0])),
            (None, Some(0x6f))
        );
    }

    #[test]
    fn absent_blocks_and_bad_ones() {
        let read = |text: &str| serde_json::from_str::<BlockAnswer>(text);
        let none = read(r#"{"block_id":{"hash":""},"block":null}"#).unwrap();
        assert!(none.content.is_none());
        let header = r#""header":{"chain_id":"c","height":"1","time":"2026-11-21T02:38:17Z"}"#;
        let empty = read(&format!(
            r#"{{"block":{{{header},"data":{{"txs":null}}}}}}"#
        ))
        .unwrap();
        assert!(empty.content.unwrap().hashes.is_empty());
        let bad = read(&format!(
            r#"{{"block":{{{header},"data":{{"txs":["!"]}}}}}}"#
        ));
        assert!(bad.unwrap_err().to_string().contains("not base64"));
    }

    #[test]
    fn codes_are_listed_only_when_one_is_not_zero() {
        let read = |text: &str| serde_json::from_str::<CodesAnswer>(text).unwrap().codes;
        let zeros = r#"{"height":"2","txs_results":[{"code":0,"events":[{"type":"a"}]},{}]}"#;
        assert_eq!(
            read(zeros),
            BlockCodes {
                count: 2,
                codes: vec![],
                codespaces: vec![],
                gas: Some(Gas::default()),
            }
        );
        let mixed =
            r#"{"txs_results":[{"code":0},{"log":"no","code":7,"codespace":"sdk"},{"code":0}]}"#;
        assert_eq!(
            read(mixed),
            BlockCodes {
                count: 3,
                codes: vec![0, 7, 0],
                codespaces: vec!["".into(), "sdk".into(), "".into()],
                gas: Some(Gas::default()),
            }
        );
    }

    #[test]
    fn gas_is_summed_and_what_is_none_does_not_cost_the_codes() {
        let text = r#"{"txs_results":[{"code":0,"gas_wanted":"200000","gas_used":"61000"},null,
            {"code":5,"gas_wanted":"-1","gas_used":null},{"gasWanted":7,"gasUsed":"6"}]}"#;
        let read = serde_json::from_str::<CodesAnswer>(text).unwrap().codes;
        let (wanted, used) = (200_007, 61_006);
        assert_eq!(read.gas, Some(Gas { wanted, used }));
        assert_eq!(read.codes, [0, 0, 5, 0]);
    }

    #[test]
    fn the_hash_of_successes_is_that_of_real_headers_and_not_where_a_transaction_failed() {
        use testkit::Dialect;
        // Of 0.31.5 another height's header was recorded.
        for dialect in &Dialect::ALL[1..] {
            let result = |method: &str| {
                let answer: serde_json::Value =
                    serde_json::from_str(dialect.answer(method).unwrap()).unwrap();
                answer["result"].clone()
            };
            let block: BlockAnswer = serde_json::from_value(result("block")).unwrap();
            let block = block.content.unwrap();
            let next: ResultsHash = serde_json::from_value(result("blockchain")).unwrap();
            let successes = hash_of_successes(block.hashes.len());
            let found = next.of(block.height + 1).expect("the next header");
            let all_succeeded = dialect.codes.iter().all(|code| *code == 0);
            assert_eq!(found == successes, all_succeeded, "{}", dialect.version);
            assert_eq!(next.of(block.height), None);
        }
    }

    #[test]
    fn results_in_a_form_that_no_version_has_are_refused_and_not_read_as_success() {
        for text in [
            r#"{"height":"2"}"#,
            r#"{"height":"2","results":null}"#,
            r#"{"height":"2","results":{"EndBlock":{}}}"#,
            r#"{"height":"2","tx_results":[{"code":7}]}"#,
            r#"{"height":"2","txs_results":{"code":7}}"#,
            r#"{"height":"2","txs_results":[7]}"#,
            r#"{"height":"2","txs_results":[{"code":"seven"}]}"#,
        ] {
            assert!(serde_json::from_str::<CodesAnswer>(text).is_err(), "{text}");
        }
    }
}
