use testkit::Dialect;

use super::*;

fn error(data: &str) -> AnswerKind {
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":-32603,"message":"Internal error","data":"{data}"}}}}"#
    );
    let (id, member, kind) = read(text.as_bytes()).unwrap();
    assert_eq!(id, Some(7));
    assert!(member.starts_with(br#""error":{"code":-32603"#) && member.ends_with(b"\"}"));
    kind
}

#[test]
fn a_result_is_passed_on_as_it_is() {
    let member = r#""result":{"code":0,"data":"","log":"","codespace":"","hash":"AB"}"#;
    let text = format!(r#"{{"jsonrpc":"2.0","id":12,{member}}}"#);
    let read = read(text.as_bytes()).unwrap();
    let expected = Cow::from(member.as_bytes());
    assert_eq!(read, (Some(12), expected, AnswerKind::Accepted));
    let refused = text.replace("\"code\":0", "\"code\":3");
    assert_eq!(
        super::read(refused.as_bytes()).unwrap().2,
        AnswerKind::Other
    );
}

#[test]
fn errors_are_classified_by_their_texts() {
    let full = "mempool is full: number of txs 5000 (max: 5000), total txs bytes 1 (max: 9)";
    let is_full = |max| AnswerKind::Refused(Refused::Full { max });
    assert_eq!(error(full), is_full(Some(5000)));
    let bytes = "mempool is full: number of txs 12 (max: 5000), total txs bytes 9 (max: 9)";
    assert_eq!(error(bytes), is_full(None));
    assert_eq!(error("Mempool is full"), is_full(None));
    let recheck =
        "mempool is still rechecking after a new committed block, so it is considered as full";
    assert_eq!(error(recheck), AnswerKind::Refused(Refused::Rechecking));
    assert_eq!(error("tx already exists in cache"), AnswerKind::Duplicate);
    assert_eq!(
        error("Tx too large. Max size is 1048576, but got 2"),
        AnswerKind::Other
    );
}

#[test]
fn account_80_checks_are_read_by_code_space_and_number() {
    let check = |code: u32, codespace: &str, log: &str| {
        let answer = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"code":{code},"data":"","log":"{log}","codespace":"{codespace}","hash":"00"}}}}"#
        );
        read(answer.as_bytes()).unwrap().2
    };
    let mismatch = |expected, got| {
        check(
            32,
            "sdk",
            &format!(
                "account sequence mismatch, expected {expected}, got {got}: incorrect account sequence"
            ),
        )
    };
    assert_eq!(mismatch(5, 7), AnswerKind::SequenceGap { expected: 5 });
    assert_eq!(mismatch(7, 5), AnswerKind::SequenceUsed);
    assert_eq!(check(32, "sdk", "another text"), AnswerKind::Other);
    assert_eq!(
        check(20, "sdk", "mempool is full"),
        AnswerKind::ApplicationFull
    );
    let pool = "pool reached max tx capacity";
    assert_eq!(check(1, "undefined", pool), AnswerKind::ApplicationFull);
    // Final: its sender has to pay more, or to sign anew.
    assert_eq!(check(13, "sdk", "insufficient fees"), AnswerKind::Other);
    // The same numbers of another application mean something else.
    assert_eq!(check(20, "wasm", "x"), AnswerKind::Other);
    assert_eq!(check(32, "wasm", "expected 1, got 2"), AnswerKind::Other);
}

#[test]
fn what_is_no_answer_is_none() {
    assert!(read(b"<html>").is_none());
    assert!(read(br#"{"jsonrpc":"2.0","id":-1,"result":{}}"#).is_none());
    assert!(read(br#"{"jsonrpc":"2.0","id":99999999999999999999,"result":{"code":0,"#).is_none());
}

#[test]
fn a_commit_is_put_together_from_check_and_block() {
    let check =
        br#""result":{"code":2,"data":"AB01","log":"no \"x\"","codespace":"kv","hash":"00"}"#;
    let version = Version::default();
    let member = committed(version, check, &[0xab; 32], (b"{}", 0));
    let text = format!("{{{}}}", String::from_utf8(member.to_vec()).unwrap());
    let value: Value = serde_json::from_str(&text).unwrap();
    let result = &value["result"];
    assert_eq!(result["check_tx"]["code"], 2);
    assert_eq!(result["check_tx"]["data"], "qwE=");
    assert_eq!(result["check_tx"]["log"], "no \"x\"");
    assert_eq!(result["height"], "0");
    assert_eq!(result["hash"].as_str().unwrap(), "AB".repeat(32));
}

#[test]
fn versions_58_indented_answers_are_read_and_passed_on_compact() {
    let dialect = Dialect::TENDERMINT_0_31;
    let cases = [
        (
            "broadcast_tx_sync",
            AnswerKind::Accepted,
            r#""result":{"code":0,"data":"","log":"","hash":"28ABE5C6113CDE129E9177D3A93C7E81CE38A08F9057A0DE3B30D1307B346D23"}"#,
        ),
        (
            "broadcast_tx_sync_refused",
            AnswerKind::Other,
            r#""result":{"code":1,"data":"","log":"","hash":"D33B013F70FA175AA9A5A3D411B336E58BE9861C60B015F1FC5D318A573344E7"}"#,
        ),
        (
            "broadcast_tx_sync_again",
            AnswerKind::Duplicate,
            r#""error":{"code":-32603,"message":"Internal error","data":"Tx already exists in cache"}"#,
        ),
        (
            "bad_params",
            AnswerKind::Other,
            r#""error":{"code":-32602,"message":"Invalid params","data":"Error converting json params to arguments: illegal base64 data at input byte 0"}"#,
        ),
    ];
    for (method, kind, member) in cases {
        let (id, found, meant) = read(dialect.answer(method).unwrap().as_bytes()).unwrap();
        assert_eq!((id, meant), (Some(1), kind));
        assert_eq!(std::str::from_utf8(&found).unwrap(), member);
    }
    let error = "{\n \"jsonrpc\": \"2.0\",\n \"id\": 2,\n \"error\": {\n \"code\": -1,\n \"message\": \"m\",\n \"data\": \"a \\\" b: \\\\\" }\n}";
    let (_, member, _) = read(error.as_bytes()).unwrap();
    assert_eq!(
        member.as_ref(),
        br#""error":{"code":-1,"message":"m","data":"a \" b: \\"}"#
    );
}

#[test]
fn versions_58_the_answers_of_every_version_mean_the_same() {
    for dialect in Dialect::ALL {
        let full = Refused::Full { max: Some(2) };
        for (method, kind) in [
            ("broadcast_tx_sync", AnswerKind::Accepted),
            ("broadcast_tx_async", AnswerKind::Accepted),
            ("broadcast_tx_sync_refused", AnswerKind::Other),
            ("broadcast_tx_sync_again", AnswerKind::Duplicate),
            ("mempool_full", AnswerKind::Refused(full)),
            ("bad_params", AnswerKind::Other),
            ("unknown_method", AnswerKind::Other),
        ] {
            let Some(answer) = dialect.answer(method) else {
                continue;
            };
            let (id, member, meant) = read(answer.as_bytes()).unwrap();
            assert_eq!((id, meant), (Some(1), kind), "{} {method}", dialect.version);
            assert!(!member.contains(&b'\n'), "it is compact");
        }
    }
}

/// The keys of an object, each with those of the objects in it.
fn keys(value: &Value) -> Vec<(&String, Vec<&String>)> {
    fn inner(value: &Value) -> Vec<&String> {
        let members = value.as_object().map(|members| members.keys().collect());
        members.unwrap_or_default()
    }
    let members = value.as_object().unwrap().iter();
    members.map(|(key, value)| (key, inner(value))).collect()
}

#[test]
fn versions_58_a_commit_has_the_keys_of_the_nodes_own() {
    // 0.31 leaves out what is zero.
    for dialect in &Dialect::ALL[1..] {
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap()["result"].clone();
        let answer = |method: &str| dialect.answer(method).unwrap();
        let version = Version::parse(dialect.version).unwrap();
        let results = json(answer("block_results"));
        let of_0_32 = &results["results"]["deliver_tx"];
        let executed = [&results["txs_results"], of_0_32].map(|list| &list[0]);
        let executed = executed
            .into_iter()
            .find(|result| !result.is_null())
            .unwrap();
        let (_, check, _) = read(answer("broadcast_tx_sync").as_bytes()).unwrap();
        let executed = executed.to_string();
        let written = committed(version, &check, &[0xab; 32], (executed.as_bytes(), 3));
        let written = format!("{{{}}}", std::str::from_utf8(&written).unwrap());
        let (written, own) = (json(&written), json(answer("broadcast_tx_commit")));
        assert_eq!(keys(&written), keys(&own), "{}", dialect.version);
    }
}

/// At d835b97 a commit refused by the check of CometBFT 1.0 had a prefix that the node's own has not.
#[test]
fn versions_58_a_refused_commit_is_the_nodes_own() {
    let mut compared = 0;
    for dialect in Dialect::ALL {
        let recorded = ["broadcast_tx_sync_refused", "broadcast_tx_commit_refused"];
        let [Some(sync), Some(commit)] = recorded.map(|method| dialect.answer(method)) else {
            continue;
        };
        let version = Version::parse(dialect.version).unwrap();
        let hash: TxHash = decode_hex(REFUSED_HASH).unwrap().try_into().unwrap();
        let [(_, sync, _), (_, commit, _)] =
            [sync, commit].map(|text| read(text.as_bytes()).unwrap());
        assert_eq!(
            refused_commit(version, &hash, &sync),
            &commit[..],
            "{}",
            dialect.version
        );
        compared += 1;
    }
    assert_eq!(compared, 2);
    // What is refused before its check has the prefix in every version.
    let full = br#""error":{"code":-32603,"message":"Internal error","data":"mempool is full"}"#;
    let refused = refused_commit(Version::default(), &[0; 32], full);
    let text = std::str::from_utf8(&refused).unwrap();
    assert!(
        text.ends_with(r#""data":"error on broadcastTxCommit: mempool is full"}"#),
        "{text}"
    );
}

/// The transaction of the recorded refusals.
const REFUSED_HASH: &[u8] = b"999AAA8645BB72FF599E143B1E3D2A94777127F4783A69F067251F7BBEBC5AB6";

#[test]
fn versions_58_a_commit_is_written_as_its_version_writes_it() {
    let check = br#""result":{"code":0,"data":"","log":"","hash":"00"}"#;
    let old = Version::parse("0.31.5").unwrap();
    let member = committed(old, check, &[0xab; 32], (b"{\n  \"code\": 1\n}", 18));
    let text = std::str::from_utf8(&member).unwrap();
    assert!(
        text.contains(r#","deliver_tx":{"code":1},"hash":"ABAB"#),
        "{text}"
    );
    let refused = refused_commit(old, &[0xab; 32], br#""result":{"code":1}"#);
    let text = std::str::from_utf8(&refused).unwrap();
    assert!(text.contains(r#""deliver_tx":{"code":0,"#), "{text}");
}
