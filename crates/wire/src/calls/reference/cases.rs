//! Cases 37 to 41 of `docs/attacks.md`, one by one.

use super::*;

fn call(body: &str) -> Classified<'_> {
    classify(body.as_bytes(), &LIMITS).unwrap()
}

fn id_of(id: &str) -> Option<String> {
    let body = format!(r#"{{"id":{id},"method":"broadcast_tx_sync","params":{{"tx":"YT0x"}}}}"#);
    match call(&body) {
        Classified::One(Call::Write { id, .. }) => Some(id.as_str().to_owned()),
        Classified::One(Call::Notification) => Some("none".to_owned()),
        Classified::Unparsable => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn case_37_ids_are_echoed_as_the_node_does() {
    for (id, echoed) in [
        ("7", "7"),
        ("-0", "0"),
        ("1.9", "1"),
        ("-1.9", "-1"),
        ("1e3", "1000"),
        ("9223372036854775808", "-9223372036854775808"),
        ("9123372036854775808", "9123372036854775808"),
        ("9007199254740993", "9007199254740992"),
        ("\"\"", "\"\""),
        ("\"\\u0061\"", "\"a\""),
        ("\"<\"", "\"\\u003c\""),
        ("null", "none"),
    ] {
        assert_eq!(id_of(id).as_deref(), Some(echoed), "{id}");
    }
    for id in ["1e400", "-1e400", "{}", "[1]", "true"] {
        assert_eq!(id_of(id), None, "{id}");
    }
    let missing = r#"{"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#;
    assert_eq!(call(missing), Classified::One(Call::Notification));
}

#[test]
fn case_38_what_is_no_json_is_for_the_node_to_refuse() {
    let good = r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#;
    for bad in [
        format!("\u{feff}{good}"),
        format!("{good}x"),
        good.replace(":1", ":NaN"),
        good.replace(":1", ":01"),
        good.replace("YT0x", "YT0x\n"),
        good.replace("\"id\"", "'id'"),
        good.replace("}}", "},}"),
        String::new(),
        " ".to_owned(),
    ] {
        assert_eq!(call(&bad), Classified::Unparsable, "{bad}");
    }
    // Of these Go makes a request with a transaction.
    for odd in [
        good.replace("sync", "s\\u0079nc"),
        good.replace(":1", ":2,\"ID\":1"),
        good.replace("YT0x", "YT0\\u0078\\n"),
        good.replace("YT0x", "YT0xMR=="),
        good.replace("\"YT0x\"", "[97, 61, 49, null]"),
    ] {
        let found = call(&odd);
        assert!(
            matches!(&found, Classified::One(Call::Write { tx, .. }) if tx.starts_with(b"a=1")),
            "{odd}: {found:?}"
        );
    }
    for refused in [
        "\"\\ud800\"",
        "\"!!\"",
        "\"YQ\"",
        "\"YT0x YT0\"",
        "1",
        "{}",
        "[256]",
        "[1.0]",
    ] {
        let refused = good.replace("\"YT0x\"", refused);
        assert!(
            matches!(call(&refused), Classified::One(Call::Read { .. })),
            "{refused}"
        );
    }
    let not_utf8 = [&good.as_bytes()[..good.len() - 1], b",\"x\":\"\xff\"}"].concat();
    assert!(matches!(
        classify(&not_utf8, &LIMITS),
        Ok(Classified::One(Call::Write { .. }))
    ));
}

#[test]
fn case_38_depth_is_bounded() {
    let nested = |depth: usize| {
        format!(
            r#"{{"id":1,"method":"health","params":{}{}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    assert!(matches!(
        call(&nested(63)),
        Classified::One(Call::Read { .. })
    ));
    for depth in [64, 100_000] {
        let over = classify(nested(depth).as_bytes(), &LIMITS).unwrap_err();
        assert_eq!(over, OverLimit::Depth(64));
        assert!(over.to_string().contains("64 levels"));
    }
    let open = "[".repeat(100_000);
    for read in [classify, classify_message] {
        let over = read(open.as_bytes(), &LIMITS).unwrap_err();
        assert_eq!(over, OverLimit::Depth(64));
    }
}

#[test]
fn case_39_batches_are_counted_and_judged_by_element() {
    let batch = |count: usize| {
        let element = r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#;
        format!("[{}]", vec![element; count].join(","))
    };
    for count in [0, 1, 10] {
        match call(&batch(count)) {
            Classified::Batch(elements) => {
                assert_eq!(elements.len(), count);
                assert!(
                    elements
                        .iter()
                        .all(|element| matches!(element.call, Call::Write { .. }))
                );
            }
            other => panic!("{other:?}"),
        }
    }
    for count in [11, 10_000] {
        let over = classify(batch(count).as_bytes(), &LIMITS).unwrap_err();
        assert_eq!(over, OverLimit::Batch(10));
        assert_eq!(
            over.to_string(),
            "batch request exceeds maximum (10) allowed number of requests"
        );
    }
    let mixed = r#" [ {"id":1,"method":"status"} , {"method":"broadcast_tx_sync"}, null ] "#;
    match call(mixed) {
        Classified::Batch(elements) => {
            assert_eq!(elements[0].raw, br#"{"id":1,"method":"status"}"#);
            assert!(matches!(elements[0].call, Call::Read { .. }));
            assert_eq!(elements[1].call, Call::Notification);
            assert_eq!(elements[2].call, Call::Notification);
        }
        other => panic!("{other:?}"),
    }
    for wrong in [
        "[[]]",
        "[5]",
        r#"[{"id":1,"method":"status"},{"id":[]}]"#,
        "[{}",
        "[{},]",
    ] {
        assert_eq!(call(wrong), Classified::Unparsable, "{wrong}");
    }
    // On a WebSocket there are none.
    assert_eq!(
        classify_message(batch(2).as_bytes(), &LIMITS),
        Ok(Classified::Unparsable)
    );
}

#[test]
fn case_41_a_message_is_its_first_value() {
    let text = br#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}} {"id":2}x"#;
    assert_eq!(classify(text, &LIMITS), Ok(Classified::Unparsable));
    assert!(matches!(
        classify_message(text, &LIMITS),
        Ok(Classified::One(Call::Write { .. }))
    ));
}

/// Each of these is a subscription to `a.b='c'` at the node; a reader that sorts the members, or knows
/// ASCII alone, sees another query or none.
#[test]
fn json_96_the_last_of_all_spellings_of_params_counts() {
    for text in [
        r#"{"id":1,"method":"subscribe","params":{},"paramſ":{"query":"a.b='c'"}}"#,
        r#"{"id":1,"method":"subscribe","params":{},"param\u017f":{"query":"a.b='c'"}}"#,
        r#"{"id":1,"method":"subscribe","params":{},"PARAMS":{"query":"a.b='c'"}}"#,
        r#"{"id":1,"method":"subscribe","paramſ":{},"PARAMS":["x"],"params":{"query":"a.b='c'"}}"#,
        r#"{"id":1,"method":"subscribe","params":{},"Params":["a.b='c'"]}"#,
        r#"{"id":1,"method":"subscribe","\u0070arams":{"quer\u0079":"a.b\u003d'c'"}}"#,
        r#"{"id":1,"method":"\u0073ubscribe","params":{"query":5,"query":"a.b='c'"}}"#,
        r#"{"id":1,"method":"status","METHOD":"subscribe","params":["a.b='c'"]}"#,
    ] {
        let request = Request::decode(text.as_bytes()).unwrap();
        let expected = SubscriptionCall::Subscribe("a.b='c'".to_owned());
        assert_eq!(SubscriptionCall::of(&request), Some(Ok(expected)), "{text}");
        check_subscription(text);
        // A batch has the same reader, and over HTTP the node accepts no subscription.
        match call(&format!("[{text}]")) {
            Classified::Batch(elements) => {
                let is_read =
                    matches!(&elements[0].call, Call::Read { method, .. } if method == "subscribe");
                assert!(is_read, "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
}
