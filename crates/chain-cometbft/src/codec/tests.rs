//! The reader against known answers and against a second opinion.

use proptest::prelude::*;
use serde_json::{Value, json};
use wire::encoding::hex_text;

use super::reference::{self, Wrong};
use super::{Answer, AnswerId, DecodeError, Outcome, decode_answer, read};

const HASH: &str = "2B8EC32BA2579B3B8606E42C06DE2F7AFA2556EF1B8C4E4C0E9F2C3B5B3E9F01";

fn decode(text: &str) -> Answer<'_> {
    decode_answer(text.as_bytes()).unwrap()
}

fn hash() -> Option<[u8; 32]> {
    wire::encoding::decode_hash(HASH.as_bytes())
}

#[test]
fn a_sync_answer_of_the_node() {
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":17,"result":{{"code":0,"data":"","log":"","codespace":"","hash":"{HASH}"}}}}"#
    );
    let (log, codespace) = ("".into(), "".into());
    let outcome = Outcome::Broadcast {
        code: 0,
        codespace,
        log,
        hash: hash(),
    };
    let expected = Answer {
        id: AnswerId::Number(17),
        outcome,
    };
    assert_eq!(read::usual(text.as_bytes()), Some(expected.clone()));
    assert_eq!(read::any(text.as_bytes()).unwrap(), expected);
}

#[test]
fn the_answer_of_a_full_mempool_is_read_the_short_way() {
    let text = r#"{"jsonrpc":"2.0","id":17,"error":{"code":-32603,"message":"Internal error","data":"mempool is full: number of txs 5000 (max: 5000), total txs bytes 1250000 (max: 1073741824)"}}"#;
    let answer = read::any(text.as_bytes()).unwrap();
    assert_eq!(read::usual(text.as_bytes()), Some(answer));
    let escaped = text.replace("is full", r"is \u0066ull");
    assert_eq!(read::usual(escaped.as_bytes()), None);
}

#[test]
fn dialects_mean_the_same() {
    let expected = Outcome::Broadcast {
        code: 5,
        codespace: "sdk".into(),
        log: "out of \"gas\"".into(),
        hash: hash(),
    };
    let lower = HASH.to_lowercase();
    for text in [
        format!(
            r#"{{"result":{{"hash":"{lower}","log":"out of \"gas\"","codespace":"sdk","code":"5","data":{{"a":[1.5e3,null]}}}},"id":"1","new":{{}}}}"#
        ),
        format!(
            "{{ \"id\" : 1,\n \"error\":null, \"result\" : {{\"code\":5,\"codespace\":\"sdk\",\"log\":\"out of \\u0022gas\\u0022\",\"hash\":\"{HASH}\"}} }}\n"
        ),
    ] {
        let answer = decode(&text);
        assert_eq!(answer.outcome, expected);
        assert_eq!(answer.id.as_u64(), Some(1));
    }
}

#[test]
fn commit_answers_old_and_new() {
    for (name, height) in [("tx_result", r#""26""#), ("deliver_tx", "26")] {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":2,"result":{{"check_tx":{{"code":0,"data":null,"log":"","info":"","gas_wanted":"1","events":[]}},"{name}":{{"code":7,"log":"no","events":[{{"type":"app","attributes":[{{"key":"a","value":"b","index":true}}]}}]}},"hash":"{HASH}","height":{height}}}}}"#
        );
        let outcome = Outcome::Commit {
            check_code: 0,
            tx_code: 7,
            hash: hash(),
            height: 26,
            log: "no".into(),
            codespace: "".into(),
        };
        assert_eq!(decode(&text).outcome, outcome);
    }
    let refused = r#"{"id":2,"result":{"check_tx":{"code":1,"log":"bad","codespace":"sdk"},"tx_result":{"code":0},"hash":"","height":"0"}}"#;
    let log = "bad".into();
    let outcome = Outcome::Commit {
        check_code: 1,
        tx_code: 0,
        hash: None,
        height: 0,
        log,
        codespace: "sdk".into(),
    };
    assert_eq!(decode(refused).outcome, outcome);
}

#[test]
fn errors_of_the_node() {
    let full = r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"Internal error","data":"mempool is full: number of txs 5000 (max: 5000)"}}"#;
    let data = "mempool is full: number of txs 5000 (max: 5000)".into();
    let outcome = Outcome::Error {
        code: -32603,
        message: "Internal error".into(),
        data,
    };
    assert_eq!(decode(full).outcome, outcome);
    // To a request it cannot read the node answers without id.
    let unread = decode(
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error. Invalid JSON","data":{"at":3}}}"#,
    );
    assert_eq!(unread.id, AnswerId::Missing);
    let data = r#"{"at":3}"#.into();
    let message = "Parse error. Invalid JSON".into();
    assert_eq!(
        unread.outcome,
        Outcome::Error {
            code: -32700,
            message,
            data
        }
    );
}

/// The error with which CometBFT 1.0.1 answers a check that was refused, with this log.
fn refused_check(prefix: &str, code: &str, log: &str) -> String {
    let data =
        format!("{prefix}tx {HASH} is invalid: code={code}, data=0A, log='{log}', codespace='sdk'");
    let error = json!({"code": -32603, "message": "Internal error", "data": data});
    json!({"jsonrpc": "2.0", "id": 3, "error": error}).to_string()
}

#[test]
fn a_refused_check_of_version_1_0_is_a_rejection_with_its_code_and_not_an_error() {
    // The log is the application's: it may look like the text around it, and need escapes.
    for log in [
        "out of gas",
        "it's 'bad', codespace='x'",
        "a \"quote\" and ä",
    ] {
        for prefix in ["broadcast error on transaction validation: ", ""] {
            let text = refused_check(prefix, "13", log);
            let expected = Outcome::Broadcast {
                code: 13,
                codespace: "sdk".into(),
                log: log.into(),
                hash: hash(),
            };
            assert_eq!(decode(&text).outcome, expected);
            agree(text.as_bytes()).unwrap();
        }
    }
}

#[test]
fn an_error_that_only_looks_like_a_refused_check_stays_an_error() {
    let prefix = "broadcast error on transaction validation: ";
    for text in [
        // Nothing is refused by a code of 0, and nothing accepted by an error.
        refused_check(prefix, "0", ""),
        refused_check(prefix, "-1", ""),
        refused_check(prefix, "4294967296", ""),
        refused_check("tx too large, ", "2", ""),
        refused_check(prefix, "2", "").replace(", codespace='sdk'", ""),
        r#"{"id":3,"error":{"code":-32603,"message":"Internal error","data":"broadcast error on transaction validation: mempool is full: number of txs 2 (max: 2)"}}"#.into(),
    ] {
        let outcome = decode(&text).outcome;
        assert!(matches!(outcome, Outcome::Error { code: -32603, .. }), "{outcome:?}");
    }
}

#[test]
fn other_results_are_other() {
    for result in [
        "{}",
        "[1]",
        "null",
        "\"x\"",
        r#"{"n_txs":"0"}"#,
        r#"{"hash":7,"height":"x"}"#,
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        assert_eq!(decode(&text).outcome, Outcome::Other, "{result}");
    }
    assert_eq!(decode(r#"{"id":-1,"result":{}}"#).id, AnswerId::Number(-1));
}

#[test]
fn what_is_no_answer_says_what_to_do() {
    let words = |text: &str| decode_answer(text.as_bytes()).unwrap_err().to_string();
    for text in [
        "",
        "<html>",
        "{",
        r#"{"id":1,"result":{}} x"#,
        r#"{"id":1,"result":{"#,
    ] {
        assert!(words(text).contains("is not JSON"), "{text}");
    }
    for text in [
        "[]",
        "7",
        "{}",
        r#"{"hello":"world"}"#,
        r#"{"id":1,"id":2,"result":{}}"#,
    ] {
        assert!(words(text).contains("not JSON-RPC"), "{text}");
    }
    assert!(words(r#"{"id":1,"result":{"code":"many"}}"#).contains("'code'"));
    assert!(words(r#"{"id":1,"result":{"code":-1}}"#).contains("'code'"));
    assert!(words(r#"{"id":1.5,"result":{}}"#).contains("'id'"));
    assert!(words(r#"{"id":1,"error":"no"}"#).contains("'error'"));
}

/// Any JSON, small.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-9i64..9).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map(key(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{0,12}",
        "[0-9]{1,12}",
        any::<String>(),
        any::<[u8; 32]>().prop_map(|hash| hex_text(&hash)),
    ]
}

fn key() -> impl Strategy<Value = String> {
    let known = vec![
        "id",
        "result",
        "error",
        "code",
        "log",
        "codespace",
        "hash",
        "height",
        "check_tx",
        "tx_result",
        "deliver_tx",
        "message",
        "data",
    ];
    prop_oneof![4 => proptest::sample::select(known).prop_map(String::from), 1 => text()]
}

/// An answer of the node in every respect but the values.
fn plausible() -> impl Strategy<Value = Value> {
    let hash = any::<[u8; 32]>().prop_map(|hash| hex_text(&hash));
    let word = "[a-zA-Z0-9 :(),.äß]{0,40}";
    let broadcast = (any::<u32>(), word, hash.clone()).prop_map(|(code, log, hash)| {
        json!({"code": code, "data": "", "log": log, "codespace": "", "hash": hash})
    });
    let commit = (any::<u32>(), any::<u32>(), word, hash, 0u64..1 << 50).prop_map(
        |(check, executed, log, hash, height)| {
            json!({
                "check_tx": {"code": check, "data": null, "log": log, "events": [], "codespace": "sdk"},
                "tx_result": {"code": executed, "log": log, "events": [{"type": "t"}]},
                "hash": hash,
                "height": height.to_string(),
            })
        },
    );
    let error = (-40_000i64..0, word, word)
        .prop_map(|(code, message, data)| json!({"code": code, "message": message, "data": data}));
    let id = -1i64..1 << 53;
    prop_oneof![
        (id.clone(), prop_oneof![broadcast, commit])
            .prop_map(|(id, result)| json!({"jsonrpc": "2.0", "id": id, "result": result})),
        (id, error).prop_map(|(id, error)| json!({"jsonrpc": "2.0", "id": id, "error": error})),
    ]
}

/// The usual answers, with the keys in the node's own order.
fn usual() -> impl Strategy<Value = String> {
    let accepted = any::<[u8; 32]>().prop_map(|hash| {
        let hash = hex_text(&hash);
        format!(r#""result":{{"code":0,"data":"","log":"","codespace":"","hash":"{hash}"}}"#)
    });
    let refused = any::<String>().prop_map(|data| {
        let data = json!(data);
        format!(r#""error":{{"code":-32603,"message":"Internal error","data":{data}}}"#)
    });
    let of_1_0 = (any::<u32>(), any::<String>())
        .prop_map(|(code, log)| refused_check("", &code.to_string(), &log));
    let whole = (-1i64..1 << 53, prop_oneof![accepted, refused])
        .prop_map(|(id, body)| format!(r#"{{"jsonrpc":"2.0","id":{id},{body}}}"#));
    prop_oneof![3 => whole, 1 => of_1_0]
}

/// The law: both ways to read mean the same, and the same as `serde_json` for what is UTF-8 without
/// half characters: there Go has U+FFFD and `serde_json` an error.
fn agree(bytes: &[u8]) -> Result<(), TestCaseError> {
    let shown = String::from_utf8_lossy(bytes);
    let read = read::any(bytes);
    if let Some(answer) = read::usual(bytes) {
        prop_assert_eq!(&answer, read.as_ref().unwrap(), "{}", shown);
    }
    if std::str::from_utf8(bytes).is_err() {
        return Ok(());
    }
    let theirs = reference::decode(bytes);
    let ours = read.map_err(|error| match error {
        DecodeError::NotJson(_) => Wrong::NotJson,
        DecodeError::NotAnAnswer => Wrong::NotAnAnswer,
        DecodeError::Field(name) => Wrong::Field(name),
    });
    prop_assert_eq!(ours, theirs, "{}", shown);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..Default::default() })]

    #[test]
    fn plausible_answers_are_read(answer in plausible(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&answer) } else { serde_json::to_string(&answer) };
        let text = text.unwrap();
        let read = decode(&text);
        prop_assert_eq!(answer["id"].as_i64(), match read.id { AnswerId::Number(id) => Some(id), _ => None });
        let result = &answer["result"];
        match read.outcome {
            Outcome::Broadcast { code, log, hash, .. } => {
                prop_assert_eq!(result["code"].as_u64(), Some(code.into()));
                prop_assert_eq!(result["log"].as_str(), Some(&*log));
                prop_assert_eq!(result["hash"].as_str().map(String::from), hash.map(|hash| hex_text(&hash)));
            }
            Outcome::Commit { check_code, tx_code, height, .. } => {
                prop_assert_eq!(result["check_tx"]["code"].as_u64(), Some(check_code.into()));
                prop_assert_eq!(result["tx_result"]["code"].as_u64(), Some(tx_code.into()));
                prop_assert_eq!(result["height"].as_str(), Some(&*height.to_string()));
            }
            Outcome::Error { code, message, data } => {
                prop_assert_eq!(answer["error"]["code"].as_i64(), Some(code));
                prop_assert_eq!(answer["error"]["message"].as_str(), Some(&*message));
                prop_assert_eq!(answer["error"]["data"].as_str(), Some(&*data));
            }
            Outcome::Other => prop_assert!(false, "{}", text),
        }
        agree(text.as_bytes())?;
    }

    #[test]
    fn the_readers_agree_on_any_json(
        members in proptest::collection::hash_map(key(), anything(), 0..5),
        result in anything(),
    ) {
        let mut answer = Value::Object(members.into_iter().collect());
        agree(answer.to_string().as_bytes())?;
        answer["id"] = json!(1);
        answer["result"] = result;
        agree(answer.to_string().as_bytes())?;
    }

    #[test]
    fn the_readers_agree_on_damaged_answers(
        answer in prop_oneof![plausible().prop_map(|answer| answer.to_string()), usual()],
        damage in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..4, any::<u8>()), 1..4),
    ) {
        let mut bytes = answer.into_bytes();
        agree(&bytes)?;
        for (at, kind, byte) in damage {
            let marks = br#"{}[]",:0-+.e\ntrue "#;
            let mark = marks[byte as usize % marks.len()];
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = mark,
                1 => bytes[at] = byte,
                2 => bytes.insert(at, mark),
                _ => { bytes.remove(at); }
            }
            agree(&bytes)?;
        }
        agree(&bytes[..bytes.len() / 2])?;
    }
}
