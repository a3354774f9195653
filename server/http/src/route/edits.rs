//! Changes to header fields.

use http::header::SERVER;
use http::{HeaderName, HeaderValue};
use sluicegate_config::{HeaderEdits, Part, Placeholder, Template};

use super::values::Values;
use crate::exchange::{FieldNames, Fields, NO_SERVER};

/// Fields to remove, to set and to add, in this order.
#[derive(Debug, Default)]
pub(super) struct Edits {
    remove: Vec<HeaderName>,
    set: Vec<Line>,
    add: Vec<Line>,
    /// Names of the fields to remove.
    removed: FieldNames,
    /// Names of the fields to remove and to set.
    replaced: FieldNames,
    /// A value has the ID of the request.
    names_id: bool,
}

/// Line of a field.
type Line = (HeaderName, Value);

/// Value of a field.
#[derive(Debug)]
enum Value {
    /// The same for every request.
    Fixed(HeaderValue),
    /// Text with placeholders.
    Template(Template),
}

/// Lines of one [`Edits`], with the values for a request.
#[derive(Clone, Debug)]
pub(super) struct FilledLines(Fields);

impl Edits {
    /// Reads the fields of a configuration. `request_id` is the field with the ID of a request.
    ///
    /// # Errors
    /// A name or value cannot be sent; the configuration refuses these by the same rules.
    pub(super) fn new(
        edits: &HeaderEdits,
        request_id: Option<&HeaderName>,
    ) -> Result<Edits, String> {
        let name = |name: &String| HeaderName::try_from(name).map_err(|_| name.clone());
        let lines = |list: &[(String, String)]| {
            let lines = { list.iter() }
                .map(|(key, value)| Ok((name(key)?, Value::new(value, request_id)?)));
            lines.collect::<Result<Vec<Line>, String>>()
        };
        let remove: Vec<HeaderName> = edits.remove.iter().map(name).collect::<Result<_, _>>()?;
        let set = lines(&edits.set)?;
        let names = remove.iter().chain(set.iter().map(|(name, _)| name));
        Ok(Edits {
            removed: remove.iter().collect(),
            replaced: names.collect(),
            remove,
            set,
            add: lines(&edits.add)?,
            names_id: { edits.set.iter().chain(&edits.add) }
                .any(|(_, value)| Template::of_field(value).names(&Placeholder::RequestId)),
        })
    }

    /// Returns whether a value has the ID of the request.
    pub(super) fn names_id(&self) -> bool {
        self.names_id
    }

    /// Returns whether the edits change nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }

    /// Returns the names of the fields that these edits remove or set.
    pub(super) fn replaced(&self) -> &FieldNames {
        &self.replaced
    }

    /// Returns whether all lines of a field come from these edits.
    pub(super) fn sets(&self, name: &HeaderName) -> bool {
        self.set.iter().any(|(set, _)| set == name)
    }

    /// Returns whether these edits remove a field and add no line of it.
    pub(super) fn removes(&self, name: &HeaderName) -> bool {
        let mut added = self.set.iter().chain(&self.add);
        self.remove.contains(name) && !added.any(|(added, _)| added == name)
    }

    /// Returns the lines for one request, without those whose value is empty for it or cannot be sent; `None` if the lines
    /// are the same for every request.
    pub(super) fn fill(&self, values: &Values<'_>) -> Option<FilledLines> {
        let mut lines = self.set.iter().chain(&self.add);
        if !lines.any(|(_, value)| matches!(value, Value::Template(_))) {
            return None;
        }
        let lines = self.set.iter().chain(&self.add);
        let filled = lines.filter_map(|(name, value)| Some((name.clone(), value.fill(values)?)));
        Some(FilledLines(filled.collect()))
    }

    /// Changes the fields of a message. `filled` is what [`Edits::fill`] returned for its request.
    pub(super) fn apply(&self, fields: &mut Fields, filled: Option<FilledLines>) {
        if !self.remove.is_empty() || !self.set.is_empty() {
            fields.retain(|(name, _)| !self.replaced.contains(name));
        }
        match filled {
            Some(FilledLines(lines)) => fields.extend(lines),
            None => {
                let lines = self.set.iter().chain(&self.add);
                fields.extend(lines.filter_map(|(name, value)| match value {
                    Value::Fixed(value) => Some((name.clone(), value.clone())),
                    Value::Template(_) => None,
                }));
            }
        }
        if self.removes(&SERVER) {
            // The front would add its own.
            fields.push(NO_SERVER);
        }
    }
}

impl Edits {
    /// Removes the fields that these edits remove, and sets and adds none.
    pub(super) fn only_remove(&self, fields: &mut Fields) {
        if self.remove.is_empty() {
            return;
        }
        fields.retain(|(name, _)| !self.removed.contains(name));
        if self.remove.contains(&SERVER) {
            fields.push(NO_SERVER);
        }
    }
}

impl Value {
    fn new(text: &str, request_id: Option<&HeaderName>) -> Result<Value, String> {
        let mut template = Template::of_field(text);
        if let Some(field) = request_id {
            let field = Placeholder::Header(field.as_str().to_owned());
            template = template.with(&Placeholder::RequestId, &field);
        }
        let is_text = |part: &Part| matches!(part, Part::Text(_));
        if !template.parts().iter().all(is_text) {
            return Ok(Value::Template(template));
        }
        let texts = template.parts().iter().map(|part| match part {
            Part::Text(text) => text.as_str(),
            Part::Value(_) => "",
        });
        let value = HeaderValue::try_from(texts.collect::<String>());
        value.map(Value::Fixed).map_err(|_| text.to_owned())
    }

    /// Returns the value for a request; `None` if it is empty or cannot be sent.
    fn fill(&self, values: &Values<'_>) -> Option<HeaderValue> {
        let template = match self {
            Value::Fixed(value) => return Some(value.clone()),
            Value::Template(template) => template,
        };
        let text = values.text(template);
        let text = text.trim();
        (!text.is_empty()).then(|| HeaderValue::try_from(text).ok())?
    }
}
