//! The chain as a light client sees it: every hash is computed again from the answers, every
//! signature checked, every link followed. The same code passes on a real node's chain.

use std::net::SocketAddr;
use std::time::Duration;

use devnode::Config;
use ed25519_dalek::{Signature, Verifier, VerifyingKey};
use serde_json::Value;
use sha2::{Digest, Sha256};
use testkit::{CometBft, CometOptions, Http};

use crate::support::{quick, start};

type Hash = [u8; 32];

fn sha(parts: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

/// RFC 6962, section 2.1, word for word.
fn root(leaves: &[Vec<u8>]) -> Hash {
    match leaves {
        [] => sha(&[]),
        [leaf] => sha(&[&[0], leaf]),
        many => {
            let split = many.len().next_power_of_two() / 2;
            sha(&[&[1], &root(&many[..split]), &root(&many[split..])])
        }
    }
}

/// A protobuf message under construction; zero values are left out, embedded messages never.
#[derive(Default)]
struct Proto(Vec<u8>);

impl Proto {
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push((value & 0x7f | 0x80) as u8);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn int(mut self, field: u8, value: i64) -> Self {
        if value != 0 {
            self.0.push(field << 3);
            self.varint(value.cast_unsigned());
        }
        self
    }

    fn fixed(mut self, field: u8, value: i64) -> Self {
        if value != 0 {
            self.0.push(field << 3 | 1);
            self.0.extend(value.to_le_bytes());
        }
        self
    }

    fn bytes(self, field: u8, value: &[u8]) -> Self {
        if value.is_empty() {
            self
        } else {
            self.embedded(field, value)
        }
    }

    fn embedded(mut self, field: u8, value: &[u8]) -> Self {
        self.0.push(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    fn delimited(self) -> Vec<u8> {
        let mut out = Self::default();
        out.varint(self.0.len() as u64);
        out.0.extend(self.0);
        out.0
    }
}

fn hex(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn base64(value: &Value) -> Vec<u8> {
    base64_simd::STANDARD
        .decode_to_vec(value.as_str().unwrap())
        .unwrap()
}

fn int(value: &Value) -> i64 {
    value
        .as_i64()
        .unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
}

/// `Timestamp` of an RFC 3339 text in UTC.
fn timestamp(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap().strip_suffix('Z').unwrap();
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let field = |range: std::ops::Range<usize>| seconds[range].parse::<i64>().unwrap();
    let (year, month, day) = (field(0..4), field(5..7), field(8..10));
    let leaps = |year: i64| year / 4 - year / 100 + year / 400;
    let mut days = (year - 1970) * 365 + leaps(year - 1) - leaps(1969) + day - 1;
    let leap = i64::from(leaps(year) > leaps(year - 1));
    days += [31, 28 + leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][..month as usize - 1]
        .iter()
        .sum::<i64>();
    let unix = days * 86_400 + field(11..13) * 3600 + field(14..16) * 60 + field(17..19);
    let nanos: i64 = format!("{fraction:0<9}").parse().unwrap();
    Proto::default().int(1, unix).int(2, nanos).0
}

fn block_id(value: &Value) -> Vec<u8> {
    let parts = Proto::default()
        .int(1, int(&value["parts"]["total"]))
        .bytes(2, &hex(&value["parts"]["hash"]));
    Proto::default()
        .bytes(1, &hex(&value["hash"]))
        .embedded(2, &parts.0)
        .0
}

fn version(header: &Value) -> Vec<u8> {
    Proto::default()
        .int(1, int(&header["version"]["block"]))
        .int(2, int(&header["version"]["app"]))
        .0
}

/// Fields 6 to 14 of a header, all of them hashes.
const HASHES: [&str; 9] = [
    "last_commit_hash",
    "data_hash",
    "validators_hash",
    "next_validators_hash",
    "consensus_hash",
    "app_hash",
    "last_results_hash",
    "evidence_hash",
    "proposer_address",
];

fn header_hash(header: &Value) -> Hash {
    let mut leaves = vec![
        version(header),
        Proto::default()
            .bytes(1, header["chain_id"].as_str().unwrap().as_bytes())
            .0,
        Proto::default().int(1, int(&header["height"])).0,
        timestamp(&header["time"]),
        block_id(&header["last_block_id"]),
    ];
    leaves.extend(
        HASHES
            .iter()
            .map(|name| Proto::default().bytes(1, &hex(&header[name])).0),
    );
    root(&leaves)
}

fn header_proto(header: &Value) -> Vec<u8> {
    let start = Proto::default()
        .embedded(1, &version(header))
        .bytes(2, header["chain_id"].as_str().unwrap().as_bytes())
        .int(3, int(&header["height"]))
        .embedded(4, &timestamp(&header["time"]))
        .embedded(5, &block_id(&header["last_block_id"]));
    (6..)
        .zip(HASHES)
        .fold(start, |proto, (field, name)| {
            proto.bytes(field, &hex(&header[name]))
        })
        .0
}

fn commit_signatures(commit: &Value) -> Vec<Vec<u8>> {
    let signature = |value: &Value| {
        Proto::default()
            .int(1, int(&value["block_id_flag"]))
            .bytes(2, &hex(&value["validator_address"]))
            .embedded(3, &timestamp(&value["timestamp"]))
            .bytes(4, &base64(&value["signature"]))
            .0
    };
    commit["signatures"]
        .as_array()
        .unwrap()
        .iter()
        .map(signature)
        .collect()
}

fn commit_proto(commit: &Value) -> Vec<u8> {
    let start = Proto::default()
        .int(1, int(&commit["height"]))
        .int(2, int(&commit["round"]))
        .embedded(3, &block_id(&commit["block_id"]));
    commit_signatures(commit)
        .iter()
        .fold(start, |proto, signature| proto.embedded(4, signature))
        .0
}

/// One node's RPC.
struct Chain {
    http: Http,
}

impl Chain {
    fn ask(&self, path: &str) -> Value {
        let answer: Value = serde_json::from_slice(&self.http.get(path).unwrap().body).unwrap();
        answer
            .get("result")
            .unwrap_or_else(|| panic!("{path}: {answer}"))
            .clone()
    }

    /// Verifies the chain from its first block up to a height. Returns its transactions.
    fn verify(&self, up_to: i64) -> usize {
        let mut txs = 0;
        let mut last: Option<Value> = None;
        for height in 1..=up_to {
            let answer = self.ask(&format!("/block?height={height}"));
            let header = &answer["block"]["header"];
            assert_eq!(int(&header["height"]), height);
            assert_eq!(
                header_hash(header).to_vec(),
                hex(&answer["block_id"]["hash"]),
                "hash of block {height}"
            );
            if let Some(last) = &last {
                assert_eq!(
                    header["last_block_id"], last["block_id"],
                    "link of block {height}"
                );
                assert!(
                    header["time"].as_str() > last["block"]["header"]["time"].as_str()
                        || height == 2
                );
            }
            txs += self.verify_contents(height, &answer);
            self.verify_commit(height, &answer);
            last = Some(answer);
        }
        txs
    }

    fn verify_contents(&self, height: i64, answer: &Value) -> usize {
        let (block, header) = (&answer["block"], &answer["block"]["header"]);
        let txs: Vec<Vec<u8>> = block["data"]["txs"]
            .as_array()
            .unwrap()
            .iter()
            .map(base64)
            .collect();
        let hashes: Vec<Vec<u8>> = txs.iter().map(|tx| sha(&[tx]).to_vec()).collect();
        assert_eq!(
            root(&hashes).to_vec(),
            hex(&header["data_hash"]),
            "data of block {height}"
        );
        assert_eq!(
            root(&commit_signatures(&block["last_commit"])).to_vec(),
            hex(&header["last_commit_hash"])
        );
        assert_eq!(root(&[]).to_vec(), hex(&header["evidence_hash"]));
        let data = txs
            .iter()
            .fold(Proto::default(), |proto, tx| proto.embedded(1, tx));
        let encoded = Proto::default()
            .embedded(1, &header_proto(header))
            .embedded(2, &data.0)
            .embedded(3, &[])
            .embedded(4, &commit_proto(&block["last_commit"]))
            .0;
        let parts: Vec<Vec<u8>> = encoded.chunks(65_536).map(<[u8]>::to_vec).collect();
        assert_eq!(
            root(&parts).to_vec(),
            hex(&answer["block_id"]["parts"]["hash"]),
            "parts of block {height}"
        );
        assert_eq!(
            parts.len() as i64,
            int(&answer["block_id"]["parts"]["total"])
        );
        let meta = self.ask(&format!(
            "/blockchain?minHeight={height}&maxHeight={height}"
        ));
        assert_eq!(
            int(&meta["block_metas"][0]["block_size"]),
            encoded.len() as i64
        );
        self.verify_results(height, txs.len());
        for (index, hash) in hashes.iter().enumerate() {
            self.verify_proof(hash, index, txs.len(), &hex(&header["data_hash"]));
        }
        txs.len()
    }

    /// Results and application hash of a height are in the header of the next.
    fn verify_results(&self, height: i64, txs: usize) {
        let results = self.ask(&format!("/block_results?height={height}"));
        let list = results["txs_results"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        assert_eq!(list.len(), txs);
        let leaves: Vec<Vec<u8>> = list
            .iter()
            .map(|result| {
                Proto::default()
                    .int(1, int(&result["code"]))
                    .int(5, int(&result["gas_wanted"]))
                    .int(6, int(&result["gas_used"]))
                    .0
            })
            .collect();
        let next = self.ask(&format!("/header?height={}", height + 1));
        assert_eq!(
            root(&leaves).to_vec(),
            hex(&next["header"]["last_results_hash"]),
            "results of block {height}"
        );
        assert_eq!(
            base64(&results["app_hash"]),
            hex(&next["header"]["app_hash"]),
            "application after {height}"
        );
    }

    fn verify_commit(&self, height: i64, answer: &Value) {
        let signed = self.ask(&format!("/commit?height={height}"));
        let (header, commit) = (
            &signed["signed_header"]["header"],
            &signed["signed_header"]["commit"],
        );
        assert_eq!(header, &answer["block"]["header"]);
        assert_eq!(commit["block_id"], answer["block_id"]);
        let set = self.ask(&format!("/validators?height={height}"));
        let validator = &set["validators"][0];
        let key: [u8; 32] = base64(&validator["pub_key"]["value"]).try_into().unwrap();
        assert_eq!(sha(&[&key])[..20].to_vec(), hex(&validator["address"]));
        let public = Proto::default().embedded(1, &key);
        let simple = Proto::default()
            .embedded(1, &public.0)
            .int(2, int(&validator["voting_power"]));
        assert_eq!(root(&[simple.0]).to_vec(), hex(&header["validators_hash"]));
        let signature = &commit["signatures"][0];
        let vote = Proto::default()
            .int(1, 2)
            .fixed(2, height)
            .fixed(3, int(&commit["round"]))
            .embedded(4, &block_id(&commit["block_id"]))
            .embedded(5, &timestamp(&signature["timestamp"]))
            .bytes(6, header["chain_id"].as_str().unwrap().as_bytes());
        let bytes: [u8; 64] = base64(&signature["signature"]).try_into().unwrap();
        let key = VerifyingKey::from_bytes(&key).unwrap();
        key.verify(&vote.delimited(), &Signature::from_bytes(&bytes))
            .expect("a valid signature");
    }

    fn verify_proof(&self, hash: &[u8], index: usize, total: usize, data_hash: &[u8]) {
        let text: String = hash.iter().map(|byte| format!("{byte:02X}")).collect();
        let found = self.ask(&format!("/tx?hash=0x{text}&prove=true"));
        let proof = &found["proof"]["proof"];
        assert_eq!(
            (int(&proof["index"]) as usize, int(&proof["total"]) as usize),
            (index, total)
        );
        assert_eq!(base64(&proof["leaf_hash"]), sha(&[&[0], hash]));
        let aunts: Vec<Vec<u8>> = proof["aunts"]
            .as_array()
            .unwrap()
            .iter()
            .map(base64)
            .collect();
        let top = climb(index, total, sha(&[&[0], hash]), &aunts);
        assert_eq!(top.to_vec(), data_hash);
        assert_eq!(hex(&found["proof"]["root_hash"]), data_hash);
    }
}

/// The root that a proof leads to, from the top down.
fn climb(index: usize, total: usize, leaf: Hash, aunts: &[Vec<u8>]) -> Hash {
    if total == 1 {
        return leaf;
    }
    let (last, rest) = aunts.split_last().unwrap();
    let split = total.next_power_of_two() / 2;
    if index < split {
        sha(&[&[1], &climb(index, split, leaf, rest), last])
    } else {
        sha(&[&[1], last, &climb(index - split, total - split, leaf, rest)])
    }
}

/// Puts blocks of several sizes on a chain: several transactions, large ones (several parts), none.
fn fill(http: Http) -> Chain {
    for round in 0..3 {
        for index in 0..=round * 4 {
            http.get(&format!(
                "/broadcast_tx_sync?tx=\"k{round}-{index}={}\"",
                "v".repeat(index * 9 + 1)
            ))
            .unwrap();
        }
        let large =
            base64_simd::STANDARD.encode_to_string(format!("large{round}={}", "x".repeat(70_000)));
        let body =
            format!(r#"{{"id":1,"method":"broadcast_tx_commit","params":{{"tx":"{large}"}}}}"#);
        let answer = http.post("/", body.as_bytes()).unwrap().text();
        assert!(answer.contains(r#""check_tx":{"code":0"#), "{answer}");
    }
    Chain { http }
}

fn verify(address: SocketAddr) {
    let chain = fill(Http::new(address, Duration::from_secs(20)));
    let filled = int(&chain.ask("/status")["sync_info"]["latest_block_height"]);
    // Results of a height are proven by the next, which the last does not have yet.
    let height = loop {
        let height = int(&chain.ask("/status")["sync_info"]["latest_block_height"]);
        if height > filled {
            break height;
        }
    };
    let txs = chain.verify(height - 1);
    assert!(txs == 18, "{txs} transactions up to height {}", height - 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_light_client_can_verify_the_chain() {
    let running = start(Config {
        chain_id: "light".to_owned(),
        ..quick()
    })
    .await;
    let address = running.node.rpc_address();
    tokio::task::spawn_blocking(move || verify(address))
        .await
        .unwrap();
    running.stop().await;
}

#[test]
#[ignore = "needs cometbft"]
fn the_same_light_client_verifies_a_real_chain() {
    let node =
        CometBft::start(CometOptions::default().set("consensus.timeout_commit", "50ms")).unwrap();
    verify(node.address());
}
