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
