//! Traits that read the types of fields from a file, print them, and compare them.

use std::slice::Iter;

use crate::error::Error;
use crate::print;
use crate::schema::{Given, Key, Kind, Reload, Table};
use crate::section::Section;
use crate::value::Item;

/// Type of a key's value.
pub(crate) trait Field: Sized + PartialEq {
    /// Reads a value of the file, or a default.
    fn read(item: &Item<'_>) -> Result<Self, Error>;

    /// Returns the value of an unset key; `None` if the type has no such value.
    fn unset() -> Option<Self> {
        None
    }

    /// Returns the value as TOML; `None` if it is unset or a table of its own.
    fn print(&self, key: &Key) -> Option<String>;

    /// Appends the value as tables of their own, if it is that.
    fn print_tables(&self, _: &Key, _: &mut String) {}

    /// Appends the places at and below `place` where `new` needs a restart to take effect.
    fn needs_restart(&self, new: &Self, reload: Reload, place: &str, changed: &mut Vec<String>) {
        if reload == Reload::Restart && self != new {
            changed.push(place.to_owned());
        }
    }
}

/// Struct that is declared by `table!`.
pub(crate) trait Record: Sized + PartialEq {
    /// The table as data.
    const TABLE: &'static Table;

    /// Reads and checks the table.
    fn read(section: &Section<'_>) -> Result<Self, Error>;

    /// Returns every key's value as TOML, in the order of [`Table::keys`].
    fn values(&self) -> Vec<Option<String>>;

    /// Appends the tables inside this one.
    fn print_tables(&self, out: &mut String);

    /// Appends the keys at and below `place` whose new value needs a restart.
    fn needs_restart(&self, new: &Self, place: &str, changed: &mut Vec<String>);

    /// Returns the value of the key `name` as TOML, if the table has that key.
    fn name(&self) -> Option<String> {
        let place = Self::TABLE.fields.iter().position(|key| key.name == "name")?;
        self.values().swap_remove(place)
    }
}

/// Table in whose place a word may stand.
pub(crate) trait OrWord: Record {
    /// Kind of a key that has the word or the table.
    const KIND: Kind;

    /// Returns the table that the word stands for.
    fn of_word(word: String) -> Self;
}

/// Field of a table's struct that stands for several keys of the table.
pub(crate) trait Part: Sized {
    /// Returns the keys.
    fn keys() -> Vec<Key>;

    /// Reads the keys of `section` that belong to this part.
    fn read(section: &Section<'_>) -> Result<Self, Error>;

    /// Returns every key's value as TOML, in the order of [`Part::keys`].
    fn values(&self) -> Vec<Option<String>>;

    /// Appends the tables that the keys hold.
    fn print_tables(&self, _: &mut String) {}

    /// Appends the keys at `place` whose new value needs a restart.
    fn needs_restart(&self, new: &Self, place: &str, changed: &mut Vec<String>);
}

/// Type of a list's elements.
pub(crate) trait Element: Sized + PartialEq {
    /// Reads a list.
    fn read_list(item: &Item<'_>) -> Result<Vec<Self>, Error>;

    /// Returns a list as TOML; `None` if it is unset or stands in tables of its own.
    fn print_list(list: &[Self], key: &Key) -> Option<String>;

    /// Appends a list as tables of their own, if it is that.
    fn print_list_tables(_: &[Self], _: &Key, _: &mut String) {}

    /// Appends the places of a list whose new value needs a restart.
    fn list_needs_restart(
        old: &[Self],
        new: &[Self],
        reload: Reload,
        place: &str,
        changed: &mut Vec<String>,
    ) {
        if reload == Reload::Restart && old != new {
            changed.push(place.to_owned());
        }
    }
}

/// Reads the key `name`.
///
/// # Panics
/// If a key that may be unset has a type without such a value: reading any file shows it.
pub(crate) fn read<T: Field>(section: &Section<'_>, name: &str) -> Result<T, Error> {
    match section.item(name)? {
        Some(item) => T::read(&item),
        None => Ok(T::unset().expect("the type of a key that may be unset is optional")),
    }
}

/// Reads the key `name`, which has a word or a table.
pub(crate) fn read_or_word<R: OrWord>(section: &Section<'_>, name: &str) -> Result<R, Error> {
    match section.item(name)? {
        Some(item) if !item.value.is_table() => item.word().map(R::of_word),
        _ => read(section, name),
    }
}

/// Prints `field`, which is that of the next key.
pub(crate) fn print<T: Field>(field: &T, keys: &mut Iter<'_, Key>) -> Option<String> {
    keys.next().and_then(|key| field.print(key))
}

/// Appends the tables of `field`, which is that of the next key.
pub(crate) fn print_tables<T: Field>(field: &T, keys: &mut Iter<'_, Key>, out: &mut String) {
    if let Some(key) = keys.next() {
        field.print_tables(key, out);
    }
}

/// Appends a table and those inside it.
pub(crate) fn print_record<R: Record>(record: &R, out: &mut String) {
    print::table(out, R::TABLE, &record.values());
    record.print_tables(out);
}

/// Appends the places of `old`, which is the field of the next key, where `new` needs a restart.
pub(crate) fn needs_restart<T: Field>(
    old: &T,
    new: &T,
    keys: &mut Iter<'_, Key>,
    place: &str,
    changed: &mut Vec<String>,
) {
    if let Some(key) = keys.next() {
        let separator = if place.is_empty() { "" } else { "." };
        let place = format!("{place}{separator}{}", key.name);
        old.needs_restart(new, key.reload, &place, changed);
    }
}

impl<R: Record> Field for R {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        let table = item.key.kind.table().unwrap_or(R::TABLE);
        R::read(&Section::open(item.source, *table, item.at, &item.value)?)
    }

    fn print(&self, _: &Key) -> Option<String> {
        None
    }

    /// A table that may be left out is printed if some key differs from its default.
    fn print_tables(&self, key: &Key, out: &mut String) {
        let Some(table) = key.kind.table() else {
            return;
        };
        let values = self.values();
        let by_default = |(key, value): (Key, &Option<String>)| {
            key.given.default_toml().as_deref() == value.as_deref()
        };
        let optional = matches!(key.given, Given::Unset(_));
        if !(optional && table.keys().zip(&values).all(by_default)) {
            print::table(out, table, &values);
            Record::print_tables(self, out);
        }
    }

    fn needs_restart(&self, new: &Self, _: Reload, place: &str, changed: &mut Vec<String>) {
        Record::needs_restart(self, new, place, changed);
    }
}

impl<R: Record> Element for R {
    fn read_list(item: &Item<'_>) -> Result<Vec<Self>, Error> {
        let sections = Section::open_list(item)?;
        sections.iter().map(R::read).collect()
    }

    fn print_list(list: &[Self], key: &Key) -> Option<String> {
        match key.kind {
            Kind::TablesOr { word, .. } if list.is_empty() => Some(print::text(word)),
            _ => None,
        }
    }

    fn print_list_tables(list: &[Self], key: &Key, out: &mut String) {
        let may_be_one = matches!(key.kind, Kind::TablesOr { .. } | Kind::TableOrTables { .. });
        let many = !may_be_one || list.len() > 1;
        let table = key.kind.table().unwrap_or(R::TABLE);
        let table = Table { many, ..*table };
        for record in list {
            print::table(out, &table, &record.values());
            record.print_tables(out);
        }
    }

    /// Records with names are compared with those of the same name, others in their order.
    fn list_needs_restart(
        old: &[Self],
        new: &[Self],
        reload: Reload,
        place: &str,
        changed: &mut Vec<String>,
    ) {
        let names = |list: &[Self]| {
            let mut names: Vec<_> = list.iter().map(R::name).collect();
            names.sort();
            names
        };
        let has_names = R::TABLE.fields.iter().any(|key| key.name == "name");
        if reload == Reload::Restart && has_names && names(old) != names(new) {
            changed.push(format!("names of {}", R::TABLE.header()));
        }
        let mut keys = Vec::new();
        if !has_names && old.len() == new.len() {
            let pairs = old.iter().zip(new);
            pairs.for_each(|(old, new)| Record::needs_restart(old, new, place, &mut keys));
        } else if reload == Reload::Restart && !has_names {
            keys.push(place.to_owned());
        }
        for one in old.iter().filter(|one| one.name().is_some()) {
            if let Some(other) = new.iter().find(|other| other.name() == one.name()) {
                Record::needs_restart(one, other, place, &mut keys);
            }
        }
        for key in keys {
            if !changed.contains(&key) {
                changed.push(key);
            }
        }
    }
}

impl<T: Element> Field for Vec<T> {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        T::read_list(item)
    }

    fn unset() -> Option<Self> {
        Some(Self::new())
    }

    fn print(&self, key: &Key) -> Option<String> {
        match key.given {
            Given::Unset(_) if self.is_empty() => None,
            _ => T::print_list(self, key),
        }
    }

    fn print_tables(&self, key: &Key, out: &mut String) {
        T::print_list_tables(self, key, out);
    }

    fn needs_restart(&self, new: &Self, reload: Reload, place: &str, changed: &mut Vec<String>) {
        T::list_needs_restart(self, new, reload, place, changed);
    }
}

/// Reads an unset key, or the word that stands for no number, as `None`.
impl<T: Field> Field for Option<T> {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        match (item.key.kind, item.value.as_str()) {
            (Kind::CountOrNever { .. }, Some("never"))
            | (Kind::SizeOrAuto { .. }, Some("auto")) => Ok(None),
            _ => T::read(item).map(Some),
        }
    }

    fn unset() -> Option<Self> {
        Some(None)
    }

    fn print(&self, key: &Key) -> Option<String> {
        match (self, key.kind) {
            (Some(value), _) => value.print(key),
            (None, Kind::CountOrNever { .. }) => Some(print::text("never")),
            (None, Kind::SizeOrAuto { .. }) => Some(print::text("auto")),
            (None, _) => None,
        }
    }

    fn print_tables(&self, key: &Key, out: &mut String) {
        if let Some(value) = self {
            value.print_tables(key, out);
        }
    }

    fn needs_restart(&self, new: &Self, reload: Reload, place: &str, changed: &mut Vec<String>) {
        match (self, new) {
            (Some(old), Some(new)) => old.needs_restart(new, reload, place, changed),
            _ if reload == Reload::Restart && self != new => changed.push(place.to_owned()),
            _ => {}
        }
    }
}

/// Implements [`Field`] for types that are a [`Word`](crate::value::Word), and [`Element`] for lists that hold each
/// word once.
macro_rules! words_in_fields {
    ($($word:ty),+) => {$(
        impl $crate::field::Field for $word {
            fn read(item: &$crate::value::Item<'_>) -> Result<Self, $crate::Error> {
                item.word()
            }

            fn print(&self, _: &$crate::schema::Key) -> Option<String> {
                Some($crate::print::text(&self.to_string()))
            }
        }

        impl $crate::field::Element for $word {
            fn read_list(item: &$crate::value::Item<'_>) -> Result<Vec<Self>, $crate::Error> {
                item.distinct_words()
            }

            fn print_list(list: &[Self], _: &$crate::schema::Key) -> Option<String> {
                Some($crate::print::texts(list))
            }
        }
    )+};
}

pub(crate) use words_in_fields;

/// Makes tables parts of others: their keys stand in the table that has them.
macro_rules! tables_as_parts {
    ($($table:ty),+) => {$(
        impl $crate::field::Part for $table {
            fn keys() -> Vec<$crate::schema::Key> {
                <Self as $crate::field::Record>::TABLE.keys().collect()
            }

            fn read(section: &$crate::section::Section<'_>) -> Result<Self, $crate::Error> {
                $crate::field::Record::read(section)
            }

            fn values(&self) -> Vec<Option<String>> {
                $crate::field::Record::values(self)
            }

            fn print_tables(&self, out: &mut String) {
                $crate::field::Record::print_tables(self, out);
            }

            fn needs_restart(&self, new: &Self, place: &str, changed: &mut Vec<String>) {
                $crate::field::Record::needs_restart(self, new, place, changed);
            }
        }
    )+};
}

pub(crate) use tables_as_parts;
