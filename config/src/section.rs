//! A table of a file, and the values of its keys.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Error;
use crate::schema::{Given, Kind, Table};
use crate::source::{Source, shown};
use crate::units::format_size;
use crate::value::{Item, entries, kind_of};

/// A table of a file.
pub(crate) struct Section<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) table: Table,
    entries: &'a DeTable<'a>,
    /// Byte offset of the header.
    pub(crate) at: usize,
}

impl<'a> Section<'a> {
    /// Opens the table `value` at byte `at`; every key in it is one of `table`.
    pub(crate) fn open(
        source: &'a Source<'a>,
        table: Table,
        at: usize,
        value: &'a DeValue<'a>,
    ) -> Result<Self, Error> {
        let DeValue::Table(entries) = value else {
            let found = format!("{} for `{}`", kind_of(value), table.name);
            let example = example(&table, value);
            let expected = format!("a table {}{example}", table.header());
            return Err(source.error(at, found, expected));
        };
        Self::of_entries(source, table, at, entries)
    }

    /// Opens the table of `entries`, whose header is at byte `at`.
    pub(crate) fn of_entries(
        source: &'a Source<'a>,
        table: Table,
        at: usize,
        entries: &'a DeTable<'a>,
    ) -> Result<Self, Error> {
        source.refuse_unknown_in(entries, &table)?;
        Ok(Self { source, table, entries, at })
    }

    /// Opens the tables of a list `item`, or the one table of a [`Kind::TableOrTables`], or the one or none of a [`Kind::TablesOr`].
    pub(crate) fn open_list(item: &'a Item<'_>) -> Result<Vec<Self>, Error> {
        let (table, max) = match (item.key.kind, &*item.value) {
            (Kind::Tables { table, max }, DeValue::Array(_)) => (table, max),
            (Kind::Tables { table, .. }, value) => {
                let found = format!("{} for `{}`", kind_of(value), table.name);
                return Err(item.source.error(item.at, found, table.header()));
            }
            (Kind::TablesOr { word, .. }, DeValue::String(given)) if given == word => {
                return Ok(Vec::new());
            }
            (
                Kind::TablesOr { table, .. } | Kind::TableOrTables { table, .. },
                value @ DeValue::Table(_),
            ) => {
                return Ok(vec![Self::open(item.source, *table, item.at, value)?]);
            }
            (
                Kind::TablesOr { table, max, .. } | Kind::TableOrTables { table, max },
                DeValue::Array(entries),
            ) if (1..=max).contains(&entries.len())
                && entries.iter().all(|entry| entry.get_ref().is_table()) =>
            {
                (table, max)
            }
            _ => return Err(item.refused()),
        };
        let many = Table { many: true, ..*table };
        let mut sections = Vec::new();
        for (at, value) in entries(&item.value, item.at, 0..=usize::MAX) {
            if sections.len() == max {
                let found = format!("more than {max} {}s", table.name);
                let expected = format!("up to {max} {}", many.header());
                return Err(item.source.error(at, found, expected));
            }
            sections.push(Self::open(item.source, many, at, value)?);
        }
        Ok(sections)
    }

    /// Returns the value of a key as it stands in the file.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.entries.get(name)
    }

    /// Returns the value of a key, or its default; `None` if it is unset or the default is the dataplane's.
    ///
    /// # Panics
    /// If the table does not list `name`, or lists a default that is not TOML: reading any file shows it.
    pub(crate) fn item(&self, name: &str) -> Result<Option<Item<'a>>, Error> {
        let mut fields = self.table.fields.iter().copied();
        let key = fields.find(|key| key.name == name);
        let key = key.or_else(|| self.table.keys().find(|key| key.name == name));
        let key = key.expect("the table lists the key");
        let (at, value) = if let Some(value) = self.raw(name) {
            (value.span().start, Cow::Borrowed(value.get_ref()))
        } else {
            let default = match (key.given, key.kind) {
                (Given::Required(_), _) => {
                    return Err(self.source.missing(&self.table, self.at, &key));
                }
                (Given::Unset(_), Kind::Table(table)) if !table.has_required_key() => "{}",
                (Given::Either(..) | Given::Unset(_) | Given::Option(_), _) => return Ok(None),
                (Given::Default(text), _) => text,
            };
            let value = DeValue::parse(default).expect("the default is TOML");
            (self.at, Cow::Owned(value.into_inner()))
        };
        Ok(Some(Item { source: self.source, table: self.table.name, key, value, at }))
    }

    /// Returns those of `names` that are given, in the order of the file, each with its place.
    pub(crate) fn given<'n>(&self, names: &[&'n str]) -> Vec<(&'n str, usize)> {
        let given = names.iter().filter_map(|name| Some((*name, self.raw(name)?.span().start)));
        let mut given: Vec<_> = given.collect();
        given.sort_by_key(|(_, at)| *at);
        given
    }

    /// Returns the one of `names` that is given.
    pub(crate) fn only_one_of<'n>(&self, names: &[&'n str], what: &str) -> Result<&'n str, Error> {
        let header = self.table.header();
        let (at, found) = match self.given(names)[..] {
            [(name, _)] => return Ok(name),
            [] => (self.at, format!("no {what} in {header}")),
            [(first, _), (second, at), ..] => {
                (at, format!("both `{first}` and `{second}` in {header}"))
            }
        };
        let expected = format!("exactly one of: {}", names.join(", "));
        Err(self.source.error(at, found, expected))
    }

    /// Returns where a key's value stands, or the header if it is not given.
    pub(crate) fn position(&self, name: &str) -> usize {
        self.raw(name).map_or(self.at, |value| value.span().start)
    }

    /// Returns the value of key `inner` in the table at place `index` of the list `name`.
    pub(crate) fn value_in(
        &self,
        name: &str,
        index: usize,
        inner: &str,
    ) -> Option<&'a Spanned<DeValue<'a>>> {
        let table = self.raw(name)?.get_ref().as_array()?.get(index)?;
        table.get_ref().as_table()?.get(inner)
    }

    /// Returns where the value of key `inner` stands in the table at place `index` of the list `name`, or its header.
    pub(crate) fn position_in(&self, name: &str, index: usize, inner: &str) -> usize {
        if let Some(value) = self.value_in(name, index, inner) {
            return value.span().start;
        }
        let list = self.raw(name).and_then(|value| value.get_ref().as_array());
        let table = list.and_then(|list| list.get(index));
        table.map_or(self.at, |table| table.span().start)
    }

    /// Refuses `larger` if it is below `smaller`; the error points at whichever of the two is given.
    pub(crate) fn at_least(&self, larger: (&str, u64), smaller: (&str, u64)) -> Result<(), Error> {
        if larger.1 >= smaller.1 {
            return Ok(());
        }
        let [large, small] = [larger.1, smaller.1].map(format_size);
        let (larger, smaller) = (larger.0, smaller.0);
        let given = self.raw(larger).map_or(smaller, |_| larger);
        let found = format!("`{larger}` is {large}, below `{smaller}`, which is {small}");
        let expected = format!("`{larger}` of at least `{smaller}`");
        Err(self.source.error(self.position(given), found, expected))
    }
}

/// Returns an example of `table` with a string that stands in its place, if the table needs one key only, as in `files = "/srv"`.
fn example(table: &Table, value: &DeValue<'_>) -> String {
    let mut required = table.keys().filter(|key| key.given.required_example().is_some());
    let (Some(key), None, Some(given)) = (required.next(), required.next(), value.as_str()) else {
        return String::new();
    };
    let name = table.name.rsplit('.').next().unwrap_or(table.name);
    format!(", such as {name} = {{ {} = \"{}\" }}", key.name, shown(given))
}
