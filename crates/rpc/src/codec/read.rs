//! The reader of answers: one pass over any JSON, and a shorter way for the usual answer.

use std::borrow::Cow;
use std::str::FromStr;

use wire::encoding::decode_hash;
use wire::json::{self, Bracket, Fault, Kind, Scanner, replace_invalid, unquote};

use super::answer::{Answer, AnswerId, DecodeError, Outcome, ResultParts, StepResult};

/// The answer to a transaction that was accepted, letter by letter as CometBFT 0.38 writes it:
/// nearly every answer of a run, at a third of the scanner's cost.
pub(super) fn accepted(body: &[u8]) -> Option<Answer<'static>> {
    let rest = body.strip_prefix(br#"{"jsonrpc":"2.0","id":"#)?;
    let len = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let (digits, rest) = rest.split_at(len);
    let id = plain_number(digits)?;
    let rest =
        rest.strip_prefix(br#","result":{"code":0,"data":"","log":"","codespace":"","hash":""#)?;
    let (hash, end) = rest.split_at_checked(64)?;
    if end != br#""}}"# {
        return None;
    }
    let (codespace, log) = (Cow::Borrowed(""), Cow::Borrowed(""));
    let outcome = Outcome::Broadcast {
        code: 0,
        codespace,
        log,
        hash: Some(decode_hash(hash)?),
    };
    Some(Answer {
        id: AnswerId::Number(id),
        outcome,
    })
}

/// What up to 18 digits without a leading zero stand for.
#[inline]
fn plain_number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 18 || (digits.len() > 1 && digits[0] == b'0') {
        return None;
    }
    Some(
        digits
            .iter()
            .fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')),
    )
}

/// Any answer. Members may come in any order, unknown ones are skipped, null is as good as absent,
/// a repeated one is refused.
pub(super) fn any(body: &[u8]) -> Result<Answer<'_>, DecodeError> {
    let mut scanner = Scanner::new(body, json::MAX_DEPTH);
    if scanner.peek() != Some(b'{') {
        json::check(body)?;
        return Err(DecodeError::NotAnAnswer);
    }
    let (mut result, mut error) = (None, None);
    let [id, has_result, has_error] = fields(
        &mut scanner,
        [b"id", b"result", b"error"],
        |place, scanner| {
            let is_object = scanner.peek() == Some(b'{');
            match place {
                1 if is_object => result = Some(fields(scanner, RESULT, skip)?),
                2 if is_object => error = Some(fields(scanner, ERROR, skip)?),
                _ => scanner.value().map(drop)?,
            }
            Ok(())
        },
    )?
    .ok_or(DecodeError::NotAnAnswer)?;
    scanner.end()?;
    if id.or(has_result).or(has_error).is_none() {
        return Err(DecodeError::NotAnAnswer);
    }
    let id = id.map_or(Ok(AnswerId::Missing), id_of)?;
    let outcome = if has_error.is_some() {
        error_of(error.flatten().ok_or(DecodeError::Field("error"))?)?
    } else if let Some(found) = result {
        result_of(found.ok_or(DecodeError::Field("result"))?)?
    } else {
        Outcome::Other
    };
    Ok(Answer { id, outcome })
}

const RESULT: [&[u8]; 8] = [
    b"code",
    b"log",
    b"codespace",
    b"hash",
    b"height",
    b"check_tx",
    b"tx_result",
    // `tx_result` until 0.37.
    b"deliver_tx",
];
const ERROR: [&[u8]; 3] = [b"code", b"message", b"data"];
const STEP: [&[u8]; 2] = [b"code", b"log"];

/// The texts of an object's members, in the order of their names.
type Fields<'a, const N: usize> = [Option<&'a [u8]>; N];

/// Reads an object; none when one of the names comes twice. `read` takes the scanner past the
/// value of the name at that place.
#[inline]
fn fields<'a, const N: usize>(
    scanner: &mut Scanner<'a>,
    names: [&[u8]; N],
    mut read: impl FnMut(usize, &mut Scanner<'a>) -> Result<(), Fault>,
) -> Result<Option<Fields<'a, N>>, Fault> {
    let (mut found, mut has_twice) = ([None; N], false);
    let mut more = scanner.enter(Bracket::Object)?;
    while more {
        let name = scanner.key()?.bytes();
        match names.iter().position(|known| *known == name.as_ref()) {
            Some(place) if scanner.peek() != Some(b'n') => {
                let start = scanner.position();
                read(place, scanner)?;
                has_twice |= found[place].replace(scanner.since(start)).is_some();
            }
            _ => skip(0, scanner)?,
        }
        more = scanner.another(Bracket::Object)?;
    }
    Ok((!has_twice).then_some(found))
}

fn skip(_: usize, scanner: &mut Scanner<'_>) -> Result<(), Fault> {
    scanner.value().map(drop)
}

fn id_of(value: &[u8]) -> Result<AnswerId<'_>, DecodeError> {
    match Kind::of(value) {
        Kind::String => Ok(AnswerId::Text(unquote(value))),
        _ => std::str::from_utf8(value)
            .ok()
            .and_then(|text| text.parse().ok())
            .map(AnswerId::Number)
            .ok_or(DecodeError::Field("id")),
    }
}

fn error_of([code, message, data]: Fields<'_, 3>) -> Result<Outcome<'_>, DecodeError> {
    Ok(Outcome::Error {
        code: code
            .and_then(number)
            .ok_or(DecodeError::Field("error.code"))?,
        message: text_of(message),
        data: text_of(data),
    })
}

fn result_of(fields: Fields<'_, 8>) -> Result<Outcome<'_>, DecodeError> {
    let [
        code,
        log,
        codespace,
        hash,
        height,
        check,
        executed,
        executed_before_0_37,
    ] = fields;
    if executed.is_some() && executed_before_0_37.is_some() {
        return Err(DecodeError::Field("result"));
    }
    if check.is_none() && code.is_none() {
        return Ok(Outcome::Other);
    }
    let code = code.map(|value| number(value).ok_or(DecodeError::Field("code")));
    let height = height.map(|value| number(value).ok_or(DecodeError::Field("height")));
    let parts = ResultParts {
        code: code.transpose()?,
        log: text_of(log),
        codespace: text_of(codespace),
        hash: decode_hash(text_of(hash).as_bytes()),
        height: height.transpose()?,
        check: step_of(check, "check_tx")?,
        executed: step_of(executed.or(executed_before_0_37), "tx_result")?,
    };
    Ok(parts.outcome())
}

fn step_of<'a>(
    value: Option<&'a [u8]>,
    name: &'static str,
) -> Result<Option<StepResult<'a>>, DecodeError> {
    let Some(value) = value else {
        return Ok(None);
    };
    let mut scanner = Scanner::new(value, json::MAX_DEPTH);
    if scanner.peek() != Some(b'{') {
        return Err(DecodeError::Field(name));
    }
    let found = fields(&mut scanner, STEP, skip)?;
    let [code, log] = found.ok_or(DecodeError::Field(name))?;
    // The Go encoder of some versions leaves a code of zero out.
    let code = code.map_or(Some(0), number);
    Ok(Some(StepResult {
        code: code.ok_or(DecodeError::Field("code"))?,
        log: text_of(log),
    }))
}

/// A whole number, bare or as a string.
fn number<T: FromStr>(value: &[u8]) -> Option<T> {
    let text = std::str::from_utf8(value).ok()?;
    let digits = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .unwrap_or(text);
    // `parse` would take a plus sign, JSON numbers have none.
    if digits.starts_with('+') {
        None
    } else {
        digits.parse().ok()
    }
}

/// A string's content; nothing for null; JSON text for anything else.
fn text_of(value: Option<&[u8]>) -> Cow<'_, str> {
    match value {
        None => Cow::Borrowed(""),
        Some(value @ [b'"', ..]) => unquote(value),
        Some(value) => replace_invalid(value),
    }
}
