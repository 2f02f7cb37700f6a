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

/// A keyword that a value breaks.
#[derive(Clone, Copy)]
struct Leaf<'a> {
    keyword: &'a str,
    /// The keyword's argument; of `required` the missing name alone.
    argument: &'a Value,
    value: &'a Value,
    /// All keywords beside it.
    rules: &'a Value,
}

impl Leaf<'_> {
    fn text(&self) -> String {
        let (value, argument) = (|| repr(self.value), || repr(self.argument));
        match self.keyword {
            "type" => format!("{} is not of type {}", value(), argument()),
            "required" => format!("{} is a required property", argument()),
            "additionalProperties" => additional_text(self.value, self.rules),
            "pattern" => format!("{} does not match {}", value(), argument()),
            "enum" => format!("{} is not one of {}", value(), argument()),
            "minimum" => format!("{} is less than the minimum of {}", value(), argument()),
            "maximum" => format!("{} is greater than the maximum of {}", value(), argument()),
            "minItems" => format!("{} is too short", value()),
            "maxItems" => format!("{} is too long", value()),
            _ => format!("{} does not have enough properties", value()),
        }
    }

    /// Whether the value breaks the keyword; `required` and those with rules inside are judged
    /// elsewhere.
    fn is_broken(&self) -> bool {
        let bound = self.argument.as_i64();
        match (self.keyword, self.value) {
            ("type", value) => !is_of_type(value, self.argument),
            ("additionalProperties", value) => {
                *self.argument == Value::Bool(false)
                    && additional(value, self.rules).next().is_some()
            }
            ("pattern", Value::String(text)) => {
                let pattern = self.argument.as_str();
                pattern.is_some_and(|pattern| !matches(pattern, text))
            }
            ("enum", value) => {
                let values = self.argument.as_array();
                !values.unwrap_or_default().contains(value)
            }
            ("minimum", value) => compared(value).is_some_and(|number| Some(number) < bound),
            ("maximum", value) => compared(value).is_some_and(|number| Some(number) > bound),
            ("minItems", Value::Array(items)) => Some(count(items.len())) < bound,
            ("maxItems", Value::Array(items)) => Some(count(items.len())) > bound,
            ("minProperties", Value::Object(object)) => Some(count(object.len())) < bound,
            _ => false,
        }
    }
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
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
            let leaf = Leaf {
                keyword,
                argument,
                value,
                rules,
            };
            let problem = Problem {
                depth,
                of_alternatives: false,
                leaf,
            };
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
                    for argument in names.iter().filter(|name| lacks(value, name)) {
                        report(Problem {
                            leaf: Leaf { argument, ..leaf },
                            ..problem
                        });
                    }
                }
                _ if leaf.is_broken() => report(problem),
                _ => {}
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

fn lacks(value: &Value, name: &Value) -> bool {
    value
        .as_object()
        .zip(name.as_str())
        .is_some_and(|(object, name)| object.get(name).is_none())
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
        // Both validators of the original count integers up to 64 bits.
        Some("integer") => value.as_i64().is_some() || value.as_u64().is_some(),
        _ => false,
    }
}
