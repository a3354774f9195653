//! The JSON Schema accepts what the parser accepts, and refuses unknown keys, other types and numbers out of bounds.

use regex::Regex;
use serde_json::{Value, json};
use sluicegate_cc::Registry;

use super::{EXAMPLE, document, each_key, each_value, parse};
use crate::Config;
use crate::field::Record;
use crate::json_schema;
use crate::schema::Kind;

/// Keywords that do not affect validity.
const ANNOTATIONS: [&str; 5] = ["$schema", "$defs", "title", "description", "default"];

struct Schema(Value);

impl Schema {
    fn new() -> Self {
        let text = json_schema(&Registry::builtin());
        Self(serde_json::from_str(&text).expect("the schema is JSON"))
    }

    fn accepts(&self, toml: &str) -> bool {
        let table: toml::Table = toml.parse().expect("the text is TOML");
        self.valid(&self.0, &json!(table))
    }

    /// Returns whether `value` is valid by `schema`; panics at a keyword that it does not know.
    fn valid(&self, schema: &Value, value: &Value) -> bool {
        let keywords = schema.as_object().expect("a schema is an object").iter();
        let mut keywords = keywords.filter(|(name, _)| !ANNOTATIONS.contains(&name.as_str()));
        keywords.all(|(name, limit)| self.holds(schema, name, limit, value))
    }

    fn holds(&self, schema: &Value, name: &str, limit: &Value, value: &Value) -> bool {
        let alternatives = || limit.as_array().expect("a list of schemas").iter();
        let matching = || alternatives().filter(|one| self.valid(one, value)).count();
        let within = |size: Option<usize>, inside: fn(&u64, &u64) -> bool| {
            size.is_none_or(|size| inside(&(size as u64), &limit.as_u64().unwrap()))
        };
        let text = value.as_str();
        let list = value.as_array();
        match name {
            "$ref" => {
                let table = limit.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                self.valid(&self.0["$defs"][table], value)
            }
            "type" => match limit.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_u64() || value.is_i64(),
                "number" => value.is_number(),
                other => panic!("type {other}"),
            },
            "const" => limit == value,
            "enum" => alternatives().any(|one| one == value),
            "anyOf" => matching() > 0,
            "oneOf" => matching() == 1,
            "not" => !self.valid(limit, value),
            "minimum" => value.as_f64().is_none_or(|v| v >= limit.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|v| v <= limit.as_f64().unwrap()),
            "minLength" => within(text.map(|t| t.chars().count()), u64::ge),
            "maxLength" => within(text.map(|t| t.chars().count()), u64::le),
            "pattern" => {
                let pattern = Regex::new(limit.as_str().unwrap()).unwrap();
                text.is_none_or(|text| pattern.is_match(text))
            }
            "items" => list.is_none_or(|list| list.iter().all(|one| self.valid(limit, one))),
            "minItems" => within(list.map(Vec::len), u64::ge),
            "maxItems" => within(list.map(Vec::len), u64::le),
            "maxProperties" => within(value.as_object().map(serde_json::Map::len), u64::le),
            "required" => {
                let names = || alternatives().map(|name| name.as_str().unwrap());
                value.as_object().is_none_or(|object| names().all(|name| object.contains_key(name)))
            }
            "properties" => value.as_object().is_none_or(|object| {
                let known = object.iter().filter_map(|(key, one)| Some((limit.get(key)?, one)));
                known.into_iter().all(|(schema, one)| self.valid(schema, one))
            }),
            "additionalProperties" => value.as_object().is_none_or(|object| {
                let mut others =
                    object.iter().filter(|(key, _)| schema["properties"].get(key).is_none());
                others.all(|(_, one)| match limit {
                    Value::Bool(allowed) => *allowed,
                    schema => self.valid(schema, one),
                })
            }),
            other => panic!("the test does not know the keyword {other}"),
        }
    }
}

#[test]
fn example_and_printed_configurations_are_valid() {
    let schema = Schema::new();
    assert!(schema.accepts(EXAMPLE));
    assert!(schema.accepts(&Config::embedded().to_toml()));
    assert!(schema.accepts(&parse(EXAMPLE).unwrap().to_toml()));
    assert!(schema.accepts(super::values::UNUSUAL));
}

#[test]
fn each_default_and_example_is_valid() {
    let schema = Schema::new();
    each_value(|_, _, text| assert!(schema.accepts(text), "{text}"));
}

#[test]
fn unknown_keys_are_refused_in_each_table() {
    let schema = Schema::new();
    assert!(!schema.accepts(&format!("zzz = 1\n{EXAMPLE}")));
    for (table, _) in Config::TABLE.inner() {
        let text = document(&table, "zzz", "1");
        assert!(schema.accepts(&text.replace("zzz = 1\n", "")), "{text}");
        assert!(!schema.accepts(&text), "{text}");
    }
    let option = "congestion_control = { algorithm = \"cubic\", zzz = 0.5 }\n";
    let text = EXAMPLE.replacen("#congestion_control = \"cubic\"\n", option, 1);
    assert!(text.contains(option) && !schema.accepts(&text));
    assert!(schema.accepts(&text.replace("zzz", "beta")));
}

#[test]
fn each_key_refuses_another_type() {
    let schema = Schema::new();
    each_key(|table, key| {
        let text = document(table, key.name, "[[true]]");
        assert!(parse(&text).is_err() && !schema.accepts(&text), "{text}");
    });
}

#[test]
fn numbers_out_of_bounds_are_refused() {
    let schema = Schema::new();
    each_key(|table, key| {
        let (min, max) = match key.kind {
            Kind::Count { min, max, .. }
            | Kind::CountOrNever { min, max, .. }
            | Kind::Size { min, max }
            | Kind::SizeOrAuto { min, max } => (min, max),
            _ => return,
        };
        let accepts = |value: String| schema.accepts(&document(table, key.name, &value));
        assert!(accepts(min.to_string()) && accepts(max.to_string()));
        assert!(!accepts((max + 1).to_string()));
        assert!(!accepts(format!("{}", i128::from(min) - 1)));
    });
}

#[test]
fn a_route_has_exactly_one_handler_or_files_and_a_fallback() {
    let schema = Schema::new();
    let route = |handlers: &str| {
        let listener = "[[listener]]\nname = \"a\"\naddress = \"[::]:1\"\ntls = \"self-signed\"\n";
        schema.accepts(&format!("{listener}[[route]]\npath = \"/\"\n{handlers}"))
    };
    assert!(route("generate = {}\n"));
    assert!(!route(""));
    assert!(!route("generate = {}\nfixed = {}\n"));
    assert!(route("files = { root = \"/\" }\nfixed = {}\n"));
    assert!(!route("files = { root = \"/\" }\ngenerate = {}\n"));
}
