//! The scanner against `serde_json`, and the texts against what Go writes.

use proptest::prelude::*;

use super::*;

fn check_to(input: &[u8], depth: usize) -> Result<(), Fault> {
    let mut scanner = Scanner::new(input, depth);
    scanner.value()?;
    scanner.end()
}

#[test]
fn levels_are_counted() {
    for (text, depth) in [
        ("[[]]", 2),
        ("{\"a\":[{}]}", 3),
        ("1", 0),
        ("[1,[2],[3]]", 2),
    ] {
        assert_eq!(check_to(text.as_bytes(), depth), Ok(()), "{text}");
        if depth > 0 {
            let too_deep = check_to(text.as_bytes(), depth - 1);
            assert_eq!(too_deep, Err(Fault::Depth), "{text}");
        }
    }
}

#[test]
fn deep_levels_are_told_apart() {
    // Objects and arrays in a pattern that repeats at none of the words of 128 bits.
    let is_object = |level: usize| level.is_multiple_of(3) || level.is_multiple_of(7);
    for depth in [1, 127, 128, 129, 255, 256, 257, 1000, MAX_DEPTH] {
        let mut text = String::new();
        for level in 0..depth {
            text.push_str(if is_object(level) { "{\"a\":" } else { "[" });
        }
        text.push('1');
        for level in (0..depth).rev() {
            text.push(if is_object(level) { '}' } else { ']' });
        }
        assert_eq!(check(text.as_bytes()).unwrap().len(), text.len(), "{depth}");
        let wrong = text.replacen("1}", "1]", 1);
        assert_eq!(check(wrong.as_bytes()).is_ok(), wrong == text, "{depth}");
    }
    let deeper = "[".repeat(MAX_DEPTH + 1);
    assert_eq!(
        check(deeper.as_bytes()).unwrap_err().to_string(),
        "exceeded max depth"
    );
}

#[test]
fn each_bad_byte_is_replaced_as_go_does() {
    // `utf8.DecodeRune` takes one byte at a time of what is no character.
    for (bytes, expected) in [
        (&b"a\xe2\x82b"[..], "a\u{fffd}\u{fffd}b"),
        (b"\xf0\x9f\x98", "\u{fffd}\u{fffd}\u{fffd}"),
        (b"\xff\xc3\xa9\xc0", "\u{fffd}\u{e9}\u{fffd}"),
        ("é".as_bytes(), "é"),
    ] {
        assert_eq!(replace_invalid(bytes), expected, "{bytes:?}");
    }
    assert_eq!(unquote(b"\"\\n\xe2\x82\""), "\n\u{fffd}\u{fffd}");
    assert_eq!(unquote(b"\"a\xffb\""), "a\u{fffd}b");
    assert_eq!(
        unquote(b"\"\xe2\x80 \\n\xf0\x9f\x92\""),
        "\u{fffd}\u{fffd} \n\u{fffd}\u{fffd}\u{fffd}"
    );
}

#[test]
fn escapes_are_undone() {
    let text = br#""a\n\"\u00e9\ud83d\ude00\ud800x\/\udc00""#;
    let expected = "a\n\"é😀\u{fffd}x/\u{fffd}";
    assert_eq!(unquote(text), expected);
    let scanned = Scanner::new(text, 0).string().unwrap();
    assert_eq!(scanned.text(), expected);
    assert_eq!(scanned.bytes(), expected.as_bytes());
    assert_eq!(unquote(br#""\ud800\ud800""#), "\u{fffd}\u{fffd}");
}

#[test]
fn text_is_escaped_as_go_does() {
    let mut out = Vec::new();
    quote(&mut out, "a<b>&\"\\\n\u{1}\u{2028}\u{7f}é");
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "\"a\\u003cb\\u003e\\u0026\\\"\\\\\\n\\u0001\\u2028\u{7f}é\""
    );
}

#[test]
fn white_space_between_tokens_goes_and_that_in_strings_stays() {
    for (json, expected) in [
        ("{\n \"a b\": [1,\n 2]\n}", r#"{"a b":[1,2]}"#),
        ("[\n\"a \\\" b\", \"\\\\\" , 1]", r#"["a \" b","\\",1]"#),
        (r#"{"a":" "}"#, r#"{"a":" "}"#),
    ] {
        let mut out = Vec::new();
        compact(&mut out, json.as_bytes());
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{json}");
    }
}

#[test]
fn keys_fold_as_in_go() {
    assert!(folds_to("PaRamS", "params"));
    assert!(folds_to("param\u{17f}", "params"));
    assert!(!folds_to("param", "params"));
    assert!(!folds_to("\u{131}d", "id"));
}

#[test]
fn what_go_refuses_is_refused() {
    for input in ["", "{", "-", "\"\\u00"] {
        assert_eq!(check(input.as_bytes()), Err(Fault::End), "{input}");
    }
    for (input, byte) in [
        ("nope", b'o'),
        ("falsy", b'y'),
        ("{a", b'a'),
        ("{\"a\":1,}", b'}'),
        ("{\"a\" 1}", b'1'),
        ("{\"a\":1 \"b\"}", b'"'),
        ("[1 2]", b'2'),
        ("[1,]", b']'),
        ("01", b'1'),
        ("-x", b'x'),
        ("1.x", b'x'),
        ("1ex", b'x'),
        ("\"\\x\"", b'x'),
        ("\"\\u12g4\"", b'g'),
        ("\"a\nb\"", b'\n'),
        ("'a'", b'\''),
        ("\u{e9}", 0xc3),
    ] {
        assert_eq!(check(input.as_bytes()), Err(Fault::Byte(byte)), "{input}");
    }
    assert_eq!(Fault::Byte(b'\n').to_string(), "unexpected byte '\\n'");
    assert_eq!(first(b" {} x"), Ok(&b"{}"[..]));
}

#[test]
fn members_and_elements_are_slices_of_the_input() {
    let input = br#"{ "a" : [1, {"x":2} ,"y"] , "\u0062":null}"#;
    let found: Vec<_> = members(check(input).unwrap()).collect();
    assert_eq!(found[0].0, "a");
    let items: Vec<_> = elements(found[0].1).collect();
    assert_eq!(items, [&b"1"[..], br#"{"x":2}"#, br#""y""#]);
    assert_eq!((found[1].0.as_ref(), found[1].1), ("b", &b"null"[..]));
    assert_eq!(elements(b"[ ]").count(), 0);
    assert_eq!(members(b"{ }").count(), 0);
}

proptest! {
    #[test]
    fn what_is_quoted_is_unquoted(text in any::<String>()) {
        let mut out = Vec::new();
        quote(&mut out, &text);
        prop_assert_eq!(unquote(&out), text.as_str());
        prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
    }

    /// The same texts are JSON here and for serde_json.
    #[test]
    fn it_agrees_with_serde_json(input in r#"[\[\]{}:,"\\a1-9.eE+\-tfnulrs0 ]{0,14}"#) {
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&input).is_ok();
        prop_assert_eq!(check(input.as_bytes()).is_ok(), theirs, "{}", input);
    }

    /// The same for texts that are JSON but for one byte.
    #[test]
    fn it_agrees_on_damaged_json(value in json(), at: prop::sample::Index, byte: u8) {
        let mut text = value.into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        prop_assume!(std::str::from_utf8(&text).is_ok());
        let theirs = serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok();
        prop_assert_eq!(check(&text).is_ok(), theirs, "{:?}", text);
    }

    /// A string ends where it ends byte by byte.
    #[test]
    fn the_end_of_a_string_is_found(inside in prop::collection::vec(any::<u8>(), 0..40), tail in prop::collection::vec(any::<u8>(), 0..9)) {
        let text = [b"\"", inside.as_slice(), b"\"", &tail].concat();
        let stop = text[1..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f));
        let stop = 1 + stop.unwrap();
        let mut scanner = Scanner::new(&text, 0);
        let read = scanner.string();
        match text[stop] {
            b'"' => {
                let bytes = read.unwrap().bytes();
                prop_assert_eq!(bytes.as_ref(), &text[1..stop]);
                prop_assert_eq!(scanner.position(), stop + 1);
            }
            b'\\' => {}
            byte => prop_assert_eq!(read, Err(Fault::Byte(byte))),
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = check_to(&input, 4);
        if let Ok(value) = first(&input) {
            prop_assert!(elements(value).count() <= input.len());
            prop_assert!(members(value).count() <= input.len());
        }
    }
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("-1.5e+3".to_owned()),
        Just("0".to_owned()),
        Just(r#""a\u00e9\n""#.to_owned()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[ {} ]", items.join(" , "))),
            prop::collection::vec(inner, 0..4).prop_map(|items| {
                let members: Vec<String> =
                    items.iter().map(|item| format!("\"k\" : {item}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}
