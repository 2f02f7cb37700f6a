//! What the operator orders: a reload, bans. Each order is a POST, its parameters stand in the query.

use std::collections::HashMap;
use std::time::Duration;

use fairq::Network;
use hyper::{Request, StatusCode};
use ops::page::{Page, json, problem, text};
use serde_json::json;

use super::snapshot::Inspect;
use super::{page, parameters};
use crate::config;

/// Paths that change something.
pub(super) const POSTS: &[&str] = &[
    "/reload", "/ban", "/unban", "/drain", "/undrain", "/pause", "/resume",
];

/// Carries an order out, unless a browser sent it.
pub(super) fn order<B>(request: &Request<B>, inspect: &dyn Inspect) -> Page {
    if let Some(refusal) = page::refused(request).or_else(|| page::refused_order(request)) {
        return refusal;
    }
    let query = request.uri().query();
    let made = match request.uri().path() {
        "/reload" => parameters(query, &[]).map(|_| reloaded(inspect)),
        "/ban" => ban(query, inspect),
        "/unban" => unban(query, inspect),
        "/drain" => drain(query, inspect),
        "/undrain" => undrain(query, inspect),
        "/pause" => pause(query, inspect),
        _ => parameters(query, &[]).map(|_| {
            inspect.drain(None, None, String::new());
            json(StatusCode::OK, &json!({ "resumed": "all nodes" }))
        }),
    };
    made.unwrap_or_else(|reason| problem(StatusCode::BAD_REQUEST, &reason))
}

/// What a reload came to: 422 where the configuration is wrong, as text with a line for each fault.
fn reloaded(inspect: &dyn Inspect) -> Page {
    match inspect.reload() {
        Ok(reloaded) => json(StatusCode::OK, &reloaded),
        Err(error) => text(StatusCode::UNPROCESSABLE_ENTITY, format!("{error}\n")),
    }
}

fn ban(query: Option<&str>, inspect: &dyn Inspect) -> Result<Page, String> {
    let mut given = parameters(query, &["who", "for", "why"])?;
    let who = network(&given)?;
    let length = given.remove("for").map(|text| length(&text)).transpose()?;
    let why = reason(&mut given)?;
    Ok(match inspect.ban(who, length, why) {
        Ok(ban) => json(StatusCode::OK, &ban),
        Err(reason) => problem(StatusCode::UNPROCESSABLE_ENTITY, &reason),
    })
}

fn unban(query: Option<&str>, inspect: &dyn Inspect) -> Result<Page, String> {
    let who = network(&parameters(query, &["who"])?)?;
    Ok(if inspect.unban(who) {
        json(StatusCode::OK, &json!({ "unbanned": who.to_string() }))
    } else {
        problem(
            StatusCode::NOT_FOUND,
            &format!("{who} is not banned; GET /bans lists who is"),
        )
    })
}

fn drain(query: Option<&str>, inspect: &dyn Inspect) -> Result<Page, String> {
    let mut given = parameters(query, &["node", "for", "why"])?;
    let node = node(&mut given)?;
    let (length, why) = until(&mut given)?;
    let is_known = inspect.drain(Some(&node), Some(length), why);
    Ok(drained(is_known, &node, "drained"))
}

fn undrain(query: Option<&str>, inspect: &dyn Inspect) -> Result<Page, String> {
    let node = node(&mut parameters(query, &["node"])?)?;
    let is_known = inspect.drain(Some(&node), None, String::new());
    Ok(drained(is_known, &node, "undrained"))
}

/// Leaves all nodes alone: writes wait.
fn pause(query: Option<&str>, inspect: &dyn Inspect) -> Result<Page, String> {
    let (length, why) = until(&mut parameters(query, &["for", "why"])?)?;
    inspect.drain(None, Some(length), why);
    Ok(json(StatusCode::OK, &json!({ "paused": "all nodes" })))
}

/// For how long, and why.
fn until(given: &mut HashMap<String, String>) -> Result<(Duration, String), String> {
    let given_length = given
        .remove("for")
        .ok_or("for is missing; this ends by itself, such as for=10m")?;
    Ok((length(&given_length)?, reason(given)?))
}

fn drained(is_known: bool, node: &str, done: &str) -> Page {
    if is_known {
        json(StatusCode::OK, &json!({ done: node }))
    } else {
        problem(
            StatusCode::NOT_FOUND,
            "no such node; /readyz lists the nodes with their addresses",
        )
    }
}

fn node(given: &mut HashMap<String, String>) -> Result<String, String> {
    let node = given.remove("node");
    node.ok_or_else(|| "node is a node's address, as /readyz lists it".to_owned())
}

fn reason(given: &mut HashMap<String, String>) -> Result<String, String> {
    let why = given.remove("why").unwrap_or_default();
    if why.len() > MOST_WORDS || why.contains(char::is_control) {
        Err(format!("why is a line of at most {MOST_WORDS} bytes"))
    } else {
        Ok(why)
    }
}

fn network(given: &HashMap<String, String>) -> Result<Network, String> {
    let who = given.get("who").and_then(|text| text.parse().ok());
    who.ok_or_else(|| "who is an address or a network, such as who=192.0.2.0/24".to_owned())
}

fn length(text: &str) -> Result<Duration, String> {
    let length = config::duration(text).map_err(|reason| format!("for: {reason}"))?;
    if length.is_zero() {
        Err("for is a time above 0, such as for=10m".to_owned())
    } else {
        Ok(length)
    }
}

/// Bytes of a reason.
const MOST_WORDS: usize = 200;
