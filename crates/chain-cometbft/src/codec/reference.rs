//! A second opinion on answers, through `serde_json`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use wire::encoding::decode_hash;

use super::{Answer, AnswerId, Outcome, ResultParts, StepResult, outcome_of_error};

/// What is wrong with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    NotJson,
    NotAnAnswer,
    Field(&'static str),
}

pub(super) fn decode(body: &[u8]) -> Result<Answer<'_>, Wrong> {
    let whole: &RawValue = serde_json::from_slice(body).map_err(|_| Wrong::NotJson)?;
    let envelope: Envelope<'_> = object(whole).ok_or(Wrong::NotAnAnswer)?;
    if envelope.id.is_none() && envelope.result.is_none() && envelope.error.is_none() {
        return Err(Wrong::NotAnAnswer);
    }
    let id = match envelope.id {
        None => AnswerId::Missing,
        Some(raw) => id_of(raw)?,
    };
    let outcome = match (envelope.error, envelope.result) {
        (Some(raw), _) => error_of(raw)?,
        (None, Some(raw)) => result_of(raw)?,
        (None, None) => Outcome::Other,
    };
    Ok(Answer { id, outcome })
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawResult<'a> {
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    #[serde(borrow)]
    log: Option<&'a RawValue>,
    #[serde(borrow)]
    codespace: Option<&'a RawValue>,
    #[serde(borrow)]
    hash: Option<&'a RawValue>,
    #[serde(borrow)]
    height: Option<&'a RawValue>,
    #[serde(borrow)]
    check_tx: Option<&'a RawValue>,
    #[serde(borrow)]
    tx_result: Option<&'a RawValue>,
    #[serde(borrow)]
    deliver_tx: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawStepResult<'a> {
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    #[serde(borrow)]
    log: Option<&'a RawValue>,
    #[serde(borrow)]
    codespace: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawError<'a> {
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// Reads an object; arrays are refused although serde would take one for a structure.
fn object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    let text = raw.get();
    text.starts_with('{')
        .then(|| serde_json::from_str(text).ok())
        .flatten()
}

fn id_of(raw: &RawValue) -> Result<AnswerId<'_>, Wrong> {
    match raw.get().as_bytes()[0] {
        b'"' => Ok(AnswerId::Text(text_of(Some(raw)))),
        _ => raw
            .get()
            .parse()
            .map(AnswerId::Number)
            .map_err(|_| Wrong::Field("id")),
    }
}

fn error_of(raw: &RawValue) -> Result<Outcome<'_>, Wrong> {
    let Some(error) = object::<RawError<'_>>(raw) else {
        return Err(Wrong::Field("error"));
    };
    let code = number(error.code).ok_or(Wrong::Field("error.code"))?;
    Ok(outcome_of_error(
        code,
        text_of(error.message),
        text_of(error.data),
    ))
}

fn result_of(raw: &RawValue) -> Result<Outcome<'_>, Wrong> {
    if !raw.get().starts_with('{') {
        return Ok(Outcome::Other);
    }
    let result: RawResult<'_> = object(raw).ok_or(Wrong::Field("result"))?;
    if result.tx_result.is_some() && result.deliver_tx.is_some() {
        return Err(Wrong::Field("result"));
    }
    if result.check_tx.is_none() && result.code.is_none() {
        return Ok(Outcome::Other);
    }
    let code = result
        .code
        .map(|raw| number(Some(raw)).ok_or(Wrong::Field("code")));
    let height = result
        .height
        .map(|raw| number(Some(raw)).ok_or(Wrong::Field("height")));
    let parts = ResultParts {
        code: code.transpose()?,
        log: text_of(result.log),
        codespace: text_of(result.codespace),
        hash: decode_hash(text_of(result.hash).as_bytes()),
        height: height.transpose()?,
        check: result
            .check_tx
            .map(|raw| verdict_of(raw, "check_tx"))
            .transpose()?,
        executed: result
            .tx_result
            .or(result.deliver_tx)
            .map(|raw| verdict_of(raw, "tx_result"))
            .transpose()?,
    };
    Ok(parts.outcome())
}

fn verdict_of<'a>(raw: &'a RawValue, name: &'static str) -> Result<StepResult<'a>, Wrong> {
    let verdict: RawStepResult<'_> = object(raw).ok_or(Wrong::Field(name))?;
    // The Go encoder of some versions leaves a code of zero out.
    let code = match verdict.code {
        None => 0,
        code => number(code).ok_or(Wrong::Field("code"))?,
    };
    Ok(StepResult {
        code,
        log: text_of(verdict.log),
        codespace: text_of(verdict.codespace),
    })
}

/// A whole number, bare or as a string.
fn number<T: std::str::FromStr>(raw: Option<&RawValue>) -> Option<T> {
    let text = raw?.get();
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
fn text_of(raw: Option<&RawValue>) -> Cow<'_, str> {
    let Some(raw) = raw else {
        return Cow::Borrowed("");
    };
    let text = raw.get();
    if !text.starts_with('"') {
        return Cow::Borrowed(if text == "null" { "" } else { text });
    }
    match serde_json::from_str::<&str>(text) {
        Ok(plain) => Cow::Borrowed(plain),
        // A lone surrogate is syntactically fine but no text; the raw form is all there is.
        Err(_) => serde_json::from_str(text).map_or(Cow::Borrowed(text), Cow::Owned),
    }
}
