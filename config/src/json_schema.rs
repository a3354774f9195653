//! JSON Schema of the configuration, for editors and for checks without the server.

use serde_json::{Map, Value, json};
use sluicegate_cc::{Algorithm, OptionKind, OptionSpec, Registry};
use sluicegate_dataplane::Backend;

use crate::field::{Part, Record};
use crate::schema::{Given, Key, Kind, MAX_FIELDS, Reload, Table};
use crate::tables::{Config, Handler, Route};

/// Durations as [`parse_duration`](crate::units::parse_duration) reads them, but for the empty string.
const DURATION: &str =
    "^(?:[0-9]+d)?(?:[0-9]+h)?(?:[0-9]+m)?(?:[0-9]+s)?(?:[0-9]+ms)?(?:[0-9]+us)?(?:[0-9]+ns)?$";
const SIZE: &str = "^[0-9]+(?:TiB|GiB|MiB|KiB|TB|GB|MB|KB|B)?$";
const NAME: &str = "^[A-Za-z0-9._-]+$";
const FIELD_VALUE: &str = "^[!-~](?:[ -~]*[!-~])?$";
const CORES: &str = "^(?:auto|[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)$";

/// Returns a JSON Schema (draft 2020-12) of a configuration that is written as JSON, with the algorithms of `registry`.
///
/// It refuses unknown keys, other types, and numbers out of bounds. Bounds of durations and of sizes in strings, and
/// what several keys must agree on, stand in the descriptions.
pub fn json_schema(registry: &Registry) -> String {
    let mut schema = object(Config::TABLE, registry);
    let tables = Config::TABLE.inner();
    let tables = tables.iter();
    let tables = tables.map(|(table, _)| (table.name.to_owned(), object(table, registry)));
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Configuration of Sluicegate");
    schema["$defs"] = Value::Object(tables.collect());
    format!("{schema:#}\n")
}

fn object(table: &Table, registry: &Registry) -> Value {
    let properties = table.keys();
    let properties = properties.map(|key| (key.name.to_owned(), property(&key, registry)));
    let required = |key: &Key| matches!(key.given, Given::Required(_));
    let required: Vec<&str> = table.keys().filter(required).map(|key| key.name).collect();
    let mut object = json!({
        "type": "object",
        "description": one_line(table.summary),
        "properties": properties.collect::<Map<_, _>>(),
        "required": required,
        "additionalProperties": false,
    });
    if table.name == Route::TABLE.name {
        let handlers = Handler::keys();
        object["oneOf"] = handlers
            .iter()
            .map(|key| match key.name {
                // Either alone or with `files`, which counts as the handler then.
                name if Handler::may_stand_beside_files(name) => {
                    json!({ "required": [name], "not": { "required": ["files"] } })
                }
                name => json!({ "required": [name] }),
            })
            .collect();
    }
    let either = table.keys().filter_map(|key| match key.given {
        Given::Either(_, other) => Some((key.name, other)),
        _ => None,
    });
    // Those keys go together that may be left out for the same one.
    let (keys, others): (Vec<_>, Vec<_>) = either.unzip();
    if let Some(other) = others.first() {
        object["oneOf"] = json!([{ "required": keys }, { "required": [other] }]);
    }
    object
}

fn property(key: &Key, registry: &Registry) -> Value {
    let mut schema = of_kind(&key.kind, registry);
    let reload = match key.reload {
        Reload::Live => "",
        Reload::Restart => " A change needs a restart.",
    };
    let (summary, expectation) = (one_line(key.summary), key.kind.expectation());
    schema["description"] = json!(format!("{summary} Value: {expectation}.{reload}"));
    if let Some(default) = key.given.default_toml() {
        schema["default"] = from_toml(&default);
    }
    schema
}

/// Returns a value that is written in TOML.
fn from_toml(text: &str) -> Value {
    let table = format!("value = {text}").parse::<toml::Table>();
    let value = table.ok().and_then(|mut table| table.remove("value"));
    value.map_or(Value::Null, |value| json!(value))
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

fn of_kind(kind: &Kind, registry: &Registry) -> Value {
    match kind {
        Kind::Duration { .. } => json!({ "type": "string", "minLength": 2, "pattern": DURATION }),
        Kind::Size { min, max } => json!({ "anyOf": [
            { "type": "integer", "minimum": min, "maximum": max },
            { "type": "string", "pattern": SIZE },
        ] }),
        Kind::SizeOrAuto { min, max } => json!({ "anyOf": [
            { "type": "integer", "minimum": min, "maximum": max },
            { "type": "string", "pattern": SIZE },
            { "const": "auto" },
        ] }),
        Kind::Count { min, max, .. } => {
            json!({ "type": "integer", "minimum": min, "maximum": max })
        }
        Kind::CountOrNever { min, max, .. } => json!({ "anyOf": [
            { "type": "integer", "minimum": min, "maximum": max },
            { "const": "never" },
        ] }),
        Kind::Ratio { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        Kind::Switch => json!({ "type": "boolean" }),
        Kind::Backend => json!({ "enum": Backend::ALL.map(Backend::name) }),
        Kind::Choice { among } => json!({ "enum": among }),
        Kind::Number { among } => json!({ "enum": among }),
        Kind::Text { max } => json!({ "type": "string", "maxLength": max }),
        Kind::FieldValue { max } => {
            json!({ "type": "string", "maxLength": max, "pattern": FIELD_VALUE })
        }
        Kind::Name { max } => json!({ "type": "string", "maxLength": max, "pattern": NAME }),
        Kind::Path | Kind::LogTarget | Kind::Word { .. } => {
            json!({ "type": "string", "minLength": 1 })
        }
        Kind::Words { min, max, .. } => one_or_list(*min, *max),
        Kind::WordsOrTables { table, max, .. } => words_or_tables(table, *max),
        Kind::FieldNames => one_or_list(0, MAX_FIELDS),
        Kind::Cores => cores(),
        Kind::CongestionControl => {
            let names: Vec<&str> = registry.names().collect();
            let tables = registry.iter().map(algorithm);
            let all = [json!({ "enum": names })].into_iter().chain(tables);
            json!({ "anyOf": all.collect::<Vec<_>>() })
        }
        Kind::Fields { .. }
        | Kind::FieldValues
        | Kind::MediaTypes
        | Kind::Params
        | Kind::ErrorPages => {
            let value = if matches!(kind, Kind::Fields { many: true }) {
                one_or_list(1, MAX_FIELDS)
            } else {
                json!({ "type": "string" })
            };
            json!({ "type": "object", "additionalProperties": value, "maxProperties": MAX_FIELDS })
        }
        Kind::Table(table) => reference(table),
        Kind::TableOr { table, word, .. } => table_or(table, word),
        Kind::WordOrTable { table, .. } => word_or_table(table),
        Kind::Tables { table, max } => {
            json!({ "type": "array", "items": reference(table), "maxItems": max })
        }
        Kind::TableOrTables { table, max } => json!({ "anyOf": table_or_tables(table, *max) }),
        Kind::TablesOr { table, max, word, .. } => {
            let [one, several] = table_or_tables(table, *max);
            json!({ "anyOf": [one, several, { "const": word }] })
        }
    }
}

fn cores() -> Value {
    json!({ "anyOf": [
        { "type": "string", "pattern": CORES },
        {
            "type": "array",
            "items": { "type": "integer", "minimum": 0, "maximum": 4095 },
            "minItems": 1,
        },
    ] })
}

/// Returns a table, and a list of it.
fn table_or_tables(table: &Table, max: usize) -> [Value; 2] {
    let several =
        json!({ "type": "array", "items": reference(table), "minItems": 1, "maxItems": max });
    [reference(table), several]
}

fn reference(table: &Table) -> Value {
    json!({ "$ref": format!("#/$defs/{}", table.name) })
}

fn table_or(table: &Table, word: &str) -> Value {
    json!({ "anyOf": [reference(table), { "const": word }] })
}

fn one_or_list(min: usize, max: usize) -> Value {
    let word = json!({ "type": "string", "minLength": 1 });
    json!({ "anyOf": [
        word,
        { "type": "array", "items": word, "minItems": min, "maxItems": max },
    ] })
}

fn word_or_table(table: &Table) -> Value {
    let word = json!({ "type": "string", "minLength": 1 });
    json!({ "anyOf": [word, reference(table)] })
}

fn words_or_tables(table: &Table, max: usize) -> Value {
    let one = word_or_table(table);
    json!({ "anyOf": [
        one,
        { "type": "array", "items": one, "minItems": 1, "maxItems": max },
    ] })
}

fn algorithm(algorithm: &Algorithm) -> Value {
    let options = algorithm.options.iter().map(|spec| (spec.name.to_owned(), option(spec)));
    let mut properties: Map<String, Value> = options.collect();
    properties.insert("algorithm".to_owned(), json!({ "const": algorithm.name }));
    json!({
        "type": "object",
        "description": one_line(algorithm.summary),
        "properties": properties,
        "required": ["algorithm"],
        "additionalProperties": false,
    })
}

fn option(spec: &OptionSpec) -> Value {
    let mut schema = match spec.kind {
        OptionKind::Integer { default, min, max } => {
            json!({ "type": "integer", "minimum": min, "maximum": max, "default": default })
        }
        OptionKind::Number { default, min, max } => {
            json!({ "type": "number", "minimum": min, "maximum": max, "default": default })
        }
        OptionKind::Boolean { default } => json!({ "type": "boolean", "default": default }),
        OptionKind::Choice { default, among } => json!({ "enum": among, "default": default }),
    };
    schema["description"] = json!(one_line(spec.summary));
    schema
}
