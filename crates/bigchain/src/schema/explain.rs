//! Why a body does not follow the schema, in the words of the original.
//!
//! The original asks Python's `jsonschema` 3.2 for its best match: of all errors the least deep,
//! and of the alternatives inside one that is an `anyOf` the deepest. Keywords are visited in the
//! order in which the rules list them. This is that algorithm over the few keywords the rules
//! have; errors are compared as they come, so nothing is collected.

use std::cmp::Reverse;
use std::sync::LazyLock;

use super::patterns::matches;
use super::{COMMON, CREATE, TRANSFER};
use crate::json::{Integer, Value, parse, repr};

static RULES: LazyLock<[Value; 3]> = LazyLock::new(|| {
    [COMMON, CREATE, TRANSFER]
        .map(|text| parse(text.as_bytes()).expect("the rules of this crate are JSON"))
});

/// The original's text about the first rule that a body breaks; nothing when it breaks none.
#[must_use]
pub fn explain(body: &Value) -> Option<String> {
    let [common, create, transfer] = &*RULES;
    if let Some(text) = best_of(common, body) {
        return Some(text);
    }
    let own = match body.get("operation").and_then(Value::as_str) {
        Some("TRANSFER") => transfer,
        _ => create,
    };
    best_of(own, body).or_else(|| {
        let finite = super::typed::is_finite(body);
        (!finite).then(|| "NaN and Infinity are not JSON".to_owned())
    })
}

fn best_of(root: &Value, body: &Value) -> Option<String> {
    let mut best: Option<Problem<'_>> = None;
    Walk { root }.visit(root, body, 0, &mut |problem| {
        if best.is_none_or(|best| problem.relevance() > best.relevance()) {
            best = Some(problem);
        }
    });
    best.map(|problem| problem.leaf.text())
}

/// One error: how deep in the instance, and whether it stands for alternatives that all failed.
#[derive(Clone, Copy)]
struct Problem<'a> {
    depth: usize,
    of_alternatives: bool,
    leaf: Leaf<'a>,
}

impl Problem<'_> {
    const fn relevance(&self) -> (Reverse<usize>, bool) {
        (Reverse(self.depth), !self.of_alternatives)
    }
}

/// What one keyword has to say.
#[derive(Clone, Copy)]
enum Leaf<'a> {
    Type(&'a Value, &'a Value),
    Required(&'a Value),
    Additional(&'a Value, &'a Value),
    Pattern(&'a Value, &'a Value),
    Enum(&'a Value, &'a Value),
    Minimum(&'a Value, &'a Value),
    Maximum(&'a Value, &'a Value),
    TooFewItems(&'a Value),
    TooManyItems(&'a Value),
    TooFewMembers(&'a Value),
}

impl Leaf<'_> {
    fn text(&self) -> String {
        match self {
            Self::Type(value, wanted) => {
                format!("{} is not of type {}", repr(value), repr(wanted))
            }
            Self::Required(name) => format!("{} is a required property", repr(name)),
            Self::Additional(value, rules) => additional_text(value, rules),
            Self::Pattern(value, pattern) => {
                format!("{} does not match {}", repr(value), repr(pattern))
            }
            Self::Enum(value, values) => {
                format!("{} is not one of {}", repr(value), repr(values))
            }
            Self::Minimum(value, bound) => {
                format!(
                    "{} is less than the minimum of {}",
                    repr(value),
                    repr(bound)
                )
            }
            Self::Maximum(value, bound) => format!(
                "{} is greater than the maximum of {}",
                repr(value),
                repr(bound)
            ),
            Self::TooFewItems(value) => format!("{} is too short", repr(value)),
            Self::TooManyItems(value) => format!("{} is too long", repr(value)),
            Self::TooFewMembers(value) => {
                format!("{} does not have enough properties", repr(value))
            }
        }
    }
}

fn additional_text(value: &Value, rules: &Value) -> String {
    let names: Vec<String> = additional(value, rules)
        .map(|name| repr(&Value::from(name)))
        .collect();
    let verb = if names.len() == 1 { "was" } else { "were" };
    format!(
        "Additional properties are not allowed ({} {verb} unexpected)",
        names.join(", ")
    )
}

/// The members that the rules do not name.
fn additional<'a>(value: &'a Value, rules: &'a Value) -> impl Iterator<Item = &'a str> {
    let named = rules.get("properties");
    let members = value
        .as_object()
        .into_iter()
        .flat_map(|object| object.iter());
    members
        .map(|(name, _)| name)
        .filter(move |name| named.is_none_or(|named| named.get(name).is_none()))
}

struct Walk<'a> {
    root: &'a Value,
}

impl<'a> Walk<'a> {
    /// Reports every error of a value against rules, in the order of the keywords.
    fn visit(
        &self,
        rules: &'a Value,
        value: &'a Value,
        depth: usize,
        report: &mut dyn FnMut(Problem<'a>),
    ) {
        if let Some(reference) = rules.get("$ref").and_then(Value::as_str) {
            let name = reference.trim_start_matches("#/definitions/");
            let target = self.root.get("definitions").and_then(|all| all.get(name));
            return self.visit(
                target.expect("the rules refer to what they define"),
                value,
                depth,
                report,
            );
        }
        let keywords = rules.as_object().into_iter().flat_map(|rules| rules.iter());
        for (keyword, argument) in keywords {
            match keyword {
                "properties" => self.members(argument, value, depth, report),
                "items" => {
                    for item in value.as_array().unwrap_or_default() {
                        self.visit(argument, item, depth + 1, report);
                    }
                }
                "anyOf" => self.alternatives(argument, value, depth, report),
                "required" => {
                    let names = argument.as_array().unwrap_or_default();
                    for name in names.iter().filter(|name| lacks(value, name)) {
                        report(simple(depth, Leaf::Required(name)));
                    }
                }
                _ => {
                    if let Some(leaf) = broken(keyword, argument, value, rules) {
                        report(simple(depth, leaf));
                    }
                }
            }
        }
    }

    fn members(
        &self,
        properties: &'a Value,
        value: &'a Value,
        depth: usize,
        report: &mut dyn FnMut(Problem<'a>),
    ) {
        let properties = properties.as_object().into_iter();
        for (name, rules) in properties.flat_map(|properties| properties.iter()) {
            if let Some(member) = value.get(name) {
                self.visit(rules, member, depth + 1, report);
            }
        }
    }

    /// If no alternative holds, the error is the deepest inside them; among equally deep ones,
    /// one of further alternatives; among these, the first.
    fn alternatives(
        &self,
        alternatives: &'a Value,
        value: &'a Value,
        depth: usize,
        report: &mut dyn FnMut(Problem<'a>),
    ) {
        let mut chosen: Option<Problem<'a>> = None;
        for rules in alternatives.as_array().unwrap_or_default() {
            let mut holds = true;
            self.visit(rules, value, 0, &mut |problem| {
                holds = false;
                if chosen.is_none_or(|chosen| problem.relevance() < chosen.relevance()) {
                    chosen = Some(problem);
                }
            });
            if holds {
                return;
            }
        }
        if let Some(chosen) = chosen {
            report(Problem {
                depth,
                of_alternatives: true,
                leaf: chosen.leaf,
            });
        }
    }
}

const fn simple(depth: usize, leaf: Leaf<'_>) -> Problem<'_> {
    Problem {
        depth,
        of_alternatives: false,
        leaf,
    }
}

fn lacks(value: &Value, name: &Value) -> bool {
    value
        .as_object()
        .zip(name.as_str())
        .is_some_and(|(object, name)| object.get(name).is_none())
}

/// The error of a keyword that looks at the value alone, if the value breaks it.
fn broken<'a>(
    keyword: &str,
    argument: &'a Value,
    value: &'a Value,
    rules: &'a Value,
) -> Option<Leaf<'a>> {
    let (breaks, leaf) = match (keyword, value) {
        ("type", _) => (!is_of_type(value, argument), Leaf::Type(value, argument)),
        ("additionalProperties", Value::Object(_)) => (
            *argument == Value::Bool(false) && additional(value, rules).next().is_some(),
            Leaf::Additional(value, rules),
        ),
        ("pattern", Value::String(text)) => (
            argument
                .as_str()
                .is_some_and(|pattern| !matches(pattern, text)),
            Leaf::Pattern(value, argument),
        ),
        ("enum", _) => (
            !argument.as_array().unwrap_or_default().contains(value),
            Leaf::Enum(value, argument),
        ),
        ("minimum", _) => (
            compared(value).is_some_and(|number| Some(number) < argument.as_i64()),
            Leaf::Minimum(value, argument),
        ),
        ("maximum", _) => (
            compared(value).is_some_and(|number| Some(number) > argument.as_i64()),
            Leaf::Maximum(value, argument),
        ),
        ("minItems", Value::Array(items)) => {
            (shorter(items.len(), argument), Leaf::TooFewItems(value))
        }
        ("maxItems", Value::Array(items)) => (
            argument
                .as_i64()
                .is_some_and(|most| items.len() as i64 > most),
            Leaf::TooManyItems(value),
        ),
        ("minProperties", Value::Object(object)) => {
            (shorter(object.len(), argument), Leaf::TooFewMembers(value))
        }
        _ => return None,
    };
    breaks.then_some(leaf)
}

fn shorter(length: usize, least: &Value) -> bool {
    least.as_i64().is_some_and(|least| (length as i64) < least)
}

/// A number as far as the bounds of the rules, 0 to 100, can tell it apart.
fn compared(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(Integer::Small(number)) => Some(*number),
        Value::Integer(Integer::Big(digits)) if digits.starts_with('-') => Some(i64::MIN),
        Value::Integer(Integer::Big(_)) => Some(i64::MAX),
        // Floats break the type first, at the same depth.
        _ => None,
    }
}

fn is_of_type(value: &Value, wanted: &Value) -> bool {
    match wanted.as_str() {
        Some("object") => value.as_object().is_some(),
        Some("array") => value.as_array().is_some(),
        Some("string") => value.as_str().is_some(),
        Some("null") => value.is_null(),
        Some("integer") => match value {
            Value::Integer(Integer::Small(_)) => true,
            Value::Integer(Integer::Big(digits)) => digits.parse::<u64>().is_ok(),
            _ => false,
        },
        _ => false,
    }
}
