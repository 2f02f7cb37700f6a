//! Requests as people, programs and attackers spell them.

use proptest::prelude::*;

fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> + Clone {
    prop::sample::select(texts).prop_map(str::to_owned)
}

fn key() -> impl Strategy<Value = String> + Clone {
    one_of(&[
        "jsonrpc",
        "id",
        "method",
        "params",
        "id",
        "method",
        "params",
        "ID",
        "iD",
        "Method",
        "METHOD",
        "\\u0069d",
        "m\\u0065thod",
        "\\u004dethod",
        "PARAMS",
        "Params",
        "\\u0070arams",
        "param\u{17f}",
        "param\\u017f",
        "j\u{17f}onrpc",
        "j\\u017fonrpc",
        "\u{131}d",
        "method ",
        "x",
        "",
    ])
}

fn value() -> impl Strategy<Value = String> + Clone {
    let scalar = one_of(&[
        "null",
        "true",
        "1",
        "-7",
        "0",
        "-0",
        "1.9",
        "1e3",
        "1e400",
        "9223372036854775808",
        "123456789012345",
        "1234567890123456",
        "\"2.0\"",
        "\"\"",
        "\"a\"",
        "\"<b>\\u00e9\\n\"",
        "\"broadcast_tx_sync\"",
        "\"broadcast_tx_sync\"",
        "\"broadcast_tx_async\"",
        "\"broadcast_tx_commit\"",
        "\"broadcast\\u005ftx_sync\"",
        "\"Broadcast_tx_sync\"",
        "\" broadcast_tx_sync\"",
        "\"broadcast_tx_sync\\u0000\"",
        "\"status\"",
        "\"YT0x\"",
        "{\"tx\":\"YT0x\"}",
        "[\"YT0x\"]",
        "{\"tx\":\"YT\\u0030x\\n\",\"more\":1}",
        "{\"tx\":\"!\",\"t\\u0078\":\"YT0x\"}",
        "{\"tx\":null}",
        "{\"TX\":\"YT0x\"}",
        "{\"tx\":[97]}",
        "[\"YQ\"]",
        "{}",
        "[]",
    ]);
    prop_oneof![
        4 => scalar.clone(),
        1 => prop::collection::vec(scalar.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(","))),
        1 => prop::collection::vec((key(), scalar), 0..3).prop_map(|members| object(&members)),
    ]
}

fn object(members: &[(String, String)]) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|(key, value)| format!("\"{key}\" :{value}"))
        .collect();
    format!("{{{}}}", members.join(", "))
}

/// A request in which much is as usual.
pub(super) fn request() -> impl Strategy<Value = String> + Clone {
    let usual = (
        one_of(&["1", "\"a\"", "-5", "\"\"", "0"]),
        one_of(&["broadcast_tx_sync", "broadcast_tx_commit", "status"]),
        one_of(&["{\"tx\":\"YT0x\"}", "[\"YT0x\"]", "{\"tx\":\"\"}"]),
    );
    let usual = usual.prop_map(|(id, method, params)| {
        vec![
            ("jsonrpc".to_owned(), "\"2.0\"".to_owned()),
            ("id".to_owned(), id),
            ("method".to_owned(), format!("\"{method}\"")),
            ("params".to_owned(), params),
        ]
    });
    let extra = prop::collection::vec((key(), value()), 0..3);
    (usual, extra, any::<bool>(), any::<prop::sample::Index>()).prop_map(
        |(usual, extra, keep, at)| {
            let mut members = usual;
            if !keep {
                members.remove(at.index(members.len()));
            }
            let at = at.index(members.len() + 1);
            members.splice(at..at, extra);
            object(&members)
        },
    )
}

/// A call about subscriptions in which much is as usual, and much is said twice.
pub(super) fn subscription() -> impl Strategy<Value = String> {
    let method = one_of(&[
        "\"subscribe\"",
        "\"\\u0073ubscribe\"",
        "\"unsubscribe\"",
        "\"unsubscribe_all\"",
        "\"\u{17f}ubscribe\"",
        "\"Subscribe\"",
        "\"status\"",
        "null",
    ]);
    let query = one_of(&[
        "\"a.b='c'\"",
        "\"a.b\\u003d'c'\"",
        "\"\"",
        "null",
        "5",
        "{}",
        "[\"x\"]",
        "true",
    ]);
    let name = one_of(&["query", "query", "Query", "quer\\u0079", "tx", ""]);
    let named = prop::collection::vec((name, query.clone()), 0..3);
    let params = prop_oneof![
        4 => named.prop_map(|members| object(&members)),
        2 => prop::collection::vec(query, 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
        1 => one_of(&["null", "7", "\"a.b='c'\"", "false"]),
    ];
    let params_key = one_of(&[
        "params",
        "PARAMS",
        "Params",
        "\\u0070arams",
        "param\u{17f}",
        "param\\u017f",
        "params ",
    ]);
    let member = prop_oneof![
        2 => (one_of(&["method", "METHOD", "m\\u0065thod"]), method),
        6 => (params_key, params),
    ];
    prop::collection::vec(member, 1..5).prop_map(|members| {
        let mut all = vec![("id".to_owned(), "1".to_owned())];
        all.push(("method".to_owned(), "\"subscribe\"".to_owned()));
        all.extend(members);
        object(&all)
    })
}

pub(super) fn body() -> impl Strategy<Value = String> {
    let odd = one_of(&["null", "5", "[]", "true", "\"x\"", "{}"]);
    let element = prop_oneof![8 => request(), 1 => odd];
    let whole = prop_oneof![
        3 => element.clone(),
        1 => prop::collection::vec(element, 0..13).prop_map(|items| format!("[{}]", items.join(" ,"))),
    ];
    let around = one_of(&["", "", "", " ", "\n\t", "\r"]);
    let tail = prop_oneof![9 => Just(String::new()), 1 => one_of(&["x", "{}", ",", "}", "]"])];
    (around, whole, tail).prop_map(|(around, whole, tail)| format!("{around}{whole}{around}{tail}"))
}
