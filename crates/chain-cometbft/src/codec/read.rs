//! The reader of answers: one pass over any JSON, and a shorter way for the usual ones.

use std::borrow::Cow;
use std::str::FromStr;

use wire::encoding::decode_hash;
use wire::json::{self, Bracket, Fault, Scanner, replace_invalid, unquote};

use super::{Answer, AnswerId, DecodeError, Outcome, ResultParts, StepResult, outcome_of_error};

/// The two answers that nearly all of a run are, letter by letter as CometBFT 0.38 writes them, at
/// a fraction of the scanner's cost: to a transaction that was accepted, and to one that a full
/// mempool refused.
pub(super) fn usual(body: &[u8]) -> Option<Answer<'_>> {
    let rest = body.strip_prefix(br#"{"jsonrpc":"2.0","id":"#)?;
    let len = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let (digits, rest) = rest.split_at(len);
    Some(Answer {
        id: AnswerId::Number(plain_number(digits)?),
        outcome: accepted(rest).or_else(|| internal_error(rest))?,
    })
}

fn accepted(rest: &[u8]) -> Option<Outcome<'static>> {
    let rest =
        rest.strip_prefix(br#","result":{"code":0,"data":"","log":"","codespace":"","hash":""#)?;
    let (hash, end) = rest.split_at_checked(64)?;
    if end != br#""}}"# {
        return None;
    }
    Some(Outcome::Broadcast {
        code: 0,
        codespace: Cow::Borrowed(""),
        log: Cow::Borrowed(""),
        hash: Some(decode_hash(hash)?),
    })
}

fn internal_error(rest: &[u8]) -> Option<Outcome<'_>> {
    let head = br#","error":{"code":-32603,"message":"Internal error","data":""#;
    let data = rest.strip_prefix(head)?.strip_suffix(br#""}}"#)?;
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') & !matches!(byte, b'"' | b'\\');
    let plain = data.iter().all(is_plain).then_some(data)?;
    Some(outcome_of_error(
        -32603,
        Cow::Borrowed("Internal error"),
        Cow::Borrowed(std::str::from_utf8(plain).ok()?),
    ))
}

/// What up to 18 digits without a leading zero stand for; none for anything else.
#[inline]
fn plain_number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 18 || (digits.len() > 1 && digits[0] == b'0') {
        return None;
    }
    digits.iter().try_fold(0, |sum, digit| {
        let value = digit.wrapping_sub(b'0');
        (value < 10).then(|| sum * 10 + i64::from(value))
    })
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
    let [id, has_result, has_error] = fields(&mut scanner, answer_place, |place, scanner| {
        let is_object = scanner.peek() == Some(b'{');
        match place {
            1 if is_object => result = Some(read_result(scanner)?),
            2 if is_object => error = fields(scanner, error_place, skip)?,
            _ => skip(place, scanner)?,
        }
        Ok(())
    })?
    .ok_or(DecodeError::NotAnAnswer)?;
    scanner.end()?;
    if id.or(has_result).or(has_error).is_none() {
        return Err(DecodeError::NotAnAnswer);
    }
    let id = id.map_or(Ok(AnswerId::Missing), id_of)?;
    let outcome = if has_error.is_some() {
        error_of(error.ok_or(DecodeError::Field("error"))?)?
    } else if let Some(found) = result {
        found.outcome()?
    } else {
        Outcome::Other
    };
    Ok(Answer { id, outcome })
}

/// The place of a member of an answer.
fn answer_place(name: &[u8]) -> Option<usize> {
    Some(match name {
        b"id" => 0,
        b"result" => 1,
        b"error" => 2,
        _ => return None,
    })
}

fn error_place(name: &[u8]) -> Option<usize> {
    Some(match name {
        b"code" => 0,
        b"message" => 1,
        b"data" => 2,
        _ => return None,
    })
}

fn result_place(name: &[u8]) -> Option<usize> {
    Some(match name {
        b"code" => 0,
        b"log" => 1,
        b"codespace" => 2,
        b"hash" => 3,
        b"height" => 4,
        b"check_tx" => CHECK,
        b"tx_result" => EXECUTED,
        // `tx_result` until 0.37.
        b"deliver_tx" => EXECUTED_BEFORE_0_37,
        _ => return None,
    })
}

const CHECK: usize = 5;
const EXECUTED: usize = 6;
const EXECUTED_BEFORE_0_37: usize = 7;

fn step_place(name: &[u8]) -> Option<usize> {
    Some(match name {
        b"code" => 0,
        b"log" => 1,
        b"codespace" => 2,
        _ => return None,
    })
}

/// The texts of an object's members, each at its place.
type Fields<'a, const N: usize> = [Option<&'a [u8]>; N];

/// Reads an object; none when a member comes twice. `place_of` knows the names that matter, `read`
/// takes the scanner past the value at a place.
#[inline]
fn fields<'a, const N: usize>(
    scanner: &mut Scanner<'a>,
    place_of: impl Fn(&[u8]) -> Option<usize>,
    mut read: impl FnMut(usize, &mut Scanner<'a>) -> Result<(), Fault>,
) -> Result<Option<Fields<'a, N>>, Fault> {
    let (mut found, mut has_twice) = ([None; N], false);
    let mut more = scanner.enter(Bracket::Object)?;
    while more {
        let name = scanner.key()?;
        match place_of(&name.bytes()) {
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
    let id = match value {
        [b'"', ..] => Some(AnswerId::Text(unquote(value))),
        _ => number(value).map(AnswerId::Number),
    };
    id.ok_or(DecodeError::Field("id"))
}

fn error_of([code, message, data]: Fields<'_, 3>) -> Result<Outcome<'_>, DecodeError> {
    let code = code
        .and_then(number)
        .ok_or(DecodeError::Field("error.code"))?;
    Ok(outcome_of_error(code, text_of(message), text_of(data)))
}

/// A result that is an object. Steps that are no objects, or have a member twice, are none here.
struct RawResult<'a> {
    members: Option<Fields<'a, 8>>,
    check: Option<Fields<'a, 3>>,
    executed: Option<Fields<'a, 3>>,
}

fn read_result<'a>(scanner: &mut Scanner<'a>) -> Result<RawResult<'a>, Fault> {
    let (mut check, mut executed) = (None, None);
    let members = fields(scanner, result_place, |place, scanner| {
        let is_object = scanner.peek() == Some(b'{');
        match place {
            CHECK if is_object => check = fields(scanner, step_place, skip)?,
            EXECUTED | EXECUTED_BEFORE_0_37 if is_object => {
                executed = fields(scanner, step_place, skip)?;
            }
            _ => skip(place, scanner)?,
        }
        Ok(())
    })?;
    Ok(RawResult {
        members,
        check,
        executed,
    })
}

impl<'a> RawResult<'a> {
    fn outcome(self) -> Result<Outcome<'a>, DecodeError> {
        let members = self.members.ok_or(DecodeError::Field("result"))?;
        let [
            code,
            log,
            codespace,
            hash,
            height,
            check,
            executed,
            early_executed,
        ] = members;
        if executed.is_some() && early_executed.is_some() {
            return Err(DecodeError::Field("result"));
        }
        if check.is_none() && code.is_none() {
            return Ok(Outcome::Other);
        }
        let has_executed = executed.or(early_executed).is_some();
        let code = code.map(|value| number(value).ok_or(DecodeError::Field("code")));
        let height = height.map(|value| number(value).ok_or(DecodeError::Field("height")));
        let parts = ResultParts {
            code: code.transpose()?,
            log: text_of(log),
            codespace: text_of(codespace),
            hash: hash.and_then(hash_of),
            height: height.transpose()?,
            check: step_of(check.is_some(), self.check, "check_tx")?,
            executed: step_of(has_executed, self.executed, "tx_result")?,
        };
        Ok(parts.outcome())
    }
}

/// A step, if the answer has it.
fn step_of<'a>(
    is_there: bool,
    members: Option<Fields<'a, 3>>,
    name: &'static str,
) -> Result<Option<StepResult<'a>>, DecodeError> {
    if !is_there {
        return Ok(None);
    }
    let [code, log, codespace] = members.ok_or(DecodeError::Field(name))?;
    // The Go encoder of some versions leaves a code of zero out.
    let code = code.map_or(Some(0), number);
    Ok(Some(StepResult {
        code: code.ok_or(DecodeError::Field("code"))?,
        log: text_of(log),
        codespace: text_of(codespace),
    }))
}

/// A hash; none when it is none.
fn hash_of(value: &[u8]) -> Option<[u8; 32]> {
    match value {
        [b'"', digits @ .., b'"'] => {
            decode_hash(digits).or_else(|| decode_hash(unquote(value).as_bytes()))
        }
        _ => None,
    }
}

/// A whole number, bare or as a string.
#[inline]
fn number<T: FromStr + TryFrom<i64>>(value: &[u8]) -> Option<T> {
    let digits = match value {
        [b'"', inside @ .., b'"'] => inside,
        bare => bare,
    };
    let plain = match digits {
        [b'-', b'0', ..] => None,
        [b'-', digits @ ..] => plain_number(digits).map(|number| -number),
        digits => plain_number(digits),
    };
    if let Some(number) = plain {
        return T::try_from(number).ok();
    }
    // `parse` would take a plus sign, JSON numbers have none.
    let text = std::str::from_utf8(digits).ok();
    text.filter(|text| !text.starts_with('+'))?.parse().ok()
}

/// A string's content; nothing for null; JSON text for anything else.
fn text_of(value: Option<&[u8]>) -> Cow<'_, str> {
    match value {
        None | Some(b"\"\"") => Cow::Borrowed(""),
        Some(value @ [b'"', ..]) => unquote(value),
        Some(value) => replace_invalid(value),
    }
}
