use super::*;
use crate::json::canonical;

#[test]
fn hostile_texts_are_refused_and_bounded() {
    for text in [
        "",
        " ",
        "{",
        "[",
        "[1,]",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "01",
        "1.",
        "1e",
        "-",
        "+1",
        ".5",
        "tru",
        "nul",
        "\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\n\"",
        "1 2",
        "[1 2]",
        "\u{feff}1",
    ] {
        assert!(parse(text.as_bytes()).is_err(), "{text:?}");
    }
    assert!(parse(b"\"\xff\"").is_err());
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    assert!(matches!(
        parse(deep.as_bytes()),
        Err(Error::Json {
            at: 512,
            problem: JsonProblem::TooDeep
        })
    ));
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    assert!(matches!(
        parse(long.as_bytes()),
        Err(Error::Json {
            problem: JsonProblem::TooLong,
            ..
        })
    ));
}

#[test]
fn a_repeated_key_keeps_its_place_and_takes_the_last_value_in_objects_of_any_size() {
    for many in [3, 40] {
        let mut text = String::from("{\"a\":0");
        for index in 0..many {
            text.push_str(&format!(",\"k{index}\":{index}"));
        }
        text.push_str(",\"a\":9,\"k0\":7}");
        let value = parse(text.as_bytes()).unwrap();
        let object = value.as_object().unwrap();
        assert_eq!(object.len(), many + 1);
        assert_eq!(object.iter().next().unwrap().1, &Value::from(9));
        assert_eq!(object.get("k0"), Some(&Value::from(7)));
    }
}

#[test]
fn a_special_byte_is_found_wherever_it_stands() {
    for special in [0, 0x1f, b'"', b'\\'] {
        for plain in [b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xa2, 0xff] {
            for at in 0..20 {
                let mut bytes = [plain; 20];
                bytes[at] = special;
                assert_eq!(plain_bytes(&bytes), at);
            }
            assert_eq!(plain_bytes(&[plain; 20]), 20);
        }
    }
}

#[test]
fn integers_of_any_size_keep_every_digit() {
    let digits = "9".repeat(5_000);
    assert_eq!(canonical(&parse(digits.as_bytes()).unwrap()), digits);
    assert_eq!(canonical(&parse(b"-0").unwrap()), "0");
}

/// Texts and what `json.loads` of Python 3.6.15 says of them.
#[test]
fn the_words_are_pythons() {
    for (text, says) in SAID {
        assert_eq!(python_error(text).unwrap_or_default(), *says, "{text:?}");
    }
    assert_eq!(python_error(&"[".repeat(100_000)), None);
}

const SAID: &[(&str, &str)] = &[
    ("", "Expecting value: line 1 column 1 (char 0)"),
    ("  ", "Expecting value: line 1 column 3 (char 2)"),
    (
        "{not json",
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ),
    (
        "{",
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ),
    ("[", "Expecting value: line 1 column 2 (char 1)"),
    (
        "{\"a\"",
        "Expecting ':' delimiter: line 1 column 5 (char 4)",
    ),
    ("{\"a\":", "Expecting value: line 1 column 6 (char 5)"),
    ("{\"a\":}", "Expecting value: line 1 column 6 (char 5)"),
    (
        "{\"a\":1",
        "Expecting ',' delimiter: line 1 column 7 (char 6)",
    ),
    (
        "{\"a\":1,",
        "Expecting property name enclosed in double quotes: line 1 column 8 (char 7)",
    ),
    (
        "{\"a\":1,}",
        "Expecting property name enclosed in double quotes: line 1 column 8 (char 7)",
    ),
    (
        "{\"a\" 1}",
        "Expecting ':' delimiter: line 1 column 6 (char 5)",
    ),
    (
        "{\"a\":1 \"b\":2}",
        "Expecting ',' delimiter: line 1 column 8 (char 7)",
    ),
    ("[1", "Expecting ',' delimiter: line 1 column 3 (char 2)"),
    ("[1,", "Expecting value: line 1 column 4 (char 3)"),
    ("[1,]", "Expecting value: line 1 column 4 (char 3)"),
    ("[1 2]", "Expecting ',' delimiter: line 1 column 4 (char 3)"),
    ("[]]", "Extra data: line 1 column 3 (char 2)"),
    ("[] []", "Extra data: line 1 column 4 (char 3)"),
    ("{}x", "Extra data: line 1 column 3 (char 2)"),
    (
        "\"abc",
        "Unterminated string starting at: line 1 column 1 (char 0)",
    ),
    (
        "\"a\\",
        "Unterminated string starting at: line 1 column 1 (char 0)",
    ),
    ("\"a\\x\"", "Invalid \\escape: line 1 column 3 (char 2)"),
    (
        "\"a\\u12\"",
        "Invalid \\uXXXX escape: line 1 column 4 (char 3)",
    ),
    (
        "\"a\\u12g4\"",
        "Invalid \\uXXXX escape: line 1 column 4 (char 3)",
    ),
    (
        "\"a\\u1234",
        "Invalid \\uXXXX escape: line 1 column 4 (char 3)",
    ),
    (
        "\"a\nb\"",
        "Invalid control character at: line 1 column 3 (char 2)",
    ),
    (
        "\"a\tb\"",
        "Invalid control character at: line 1 column 3 (char 2)",
    ),
    (
        "\n\n {\"a\": tru}",
        "Expecting value: line 3 column 8 (char 9)",
    ),
    ("nul", "Expecting value: line 1 column 1 (char 0)"),
    ("-", "Expecting value: line 1 column 1 (char 0)"),
    ("-x", "Expecting value: line 1 column 1 (char 0)"),
    ("01", "Extra data: line 1 column 2 (char 1)"),
    ("1.", "Extra data: line 1 column 2 (char 1)"),
    ("1.5.", "Extra data: line 1 column 4 (char 3)"),
    ("1e", "Extra data: line 1 column 2 (char 1)"),
    ("1e+", "Extra data: line 1 column 2 (char 1)"),
    ("1e+5", ""),
    (".5", "Expecting value: line 1 column 1 (char 0)"),
    ("+1", "Expecting value: line 1 column 1 (char 0)"),
    ("NaN", ""),
    ("-Infinity", ""),
    ("-Inf", "Expecting value: line 1 column 1 (char 0)"),
    (
        "[NaN, Infinity, -Infinity, null, true, false, 1.5e-3, \"\\u00e9\"]",
        "",
    ),
    (
        "{\"größe\": x}",
        "Expecting value: line 1 column 11 (char 10)",
    ),
    (
        "[\"größe\"\n, \"😀\" x]",
        "Expecting ',' delimiter: line 2 column 7 (char 15)",
    ),
    (
        "{\"a\": {\"b\": [1, {\"c\": }]}}",
        "Expecting value: line 1 column 23 (char 22)",
    ),
    (
        "{'a': 1}",
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ),
    (
        "{\"a\": 1, b: 2}",
        "Expecting property name enclosed in double quotes: line 1 column 10 (char 9)",
    ),
    ("[1,,2]", "Expecting value: line 1 column 4 (char 3)"),
    (
        "{,}",
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ),
    ("\"\\ud800\"", ""),
    ("{\"a\":[}", "Expecting value: line 1 column 7 (char 6)"),
    ("[}", "Expecting value: line 1 column 2 (char 1)"),
    (
        "{]",
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ),
    ("tru", "Expecting value: line 1 column 1 (char 0)"),
    ("[tru]", "Expecting value: line 1 column 2 (char 1)"),
    (
        "{\"a\":nulll}",
        "Expecting ',' delimiter: line 1 column 10 (char 9)",
    ),
    ("\u{0}", "Expecting value: line 1 column 1 (char 0)"),
    ("\"\u{7f}\"", ""),
    ("/", "Expecting value: line 1 column 1 (char 0)"),
    ("{\"a\":1}}", "Extra data: line 1 column 8 (char 7)"),
];
