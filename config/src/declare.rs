//! Macros that declare a table, an enum of words and the handlers of a route, each in one place.

/// Declares a table of the file: a plain struct, and [`Record`](crate::field::Record) for it.
///
/// The struct's doc comment is the table's text in the manual, a field's doc comment the key's. A row says
/// - the field, its key where that has another name (`hosts as host`), and its type, which is a [`Field`];
/// - `kind`: type and bounds in the file, a [`Kind`];
/// - `default`, `required` (with an example), `either("other key")` (with an example) or `unset` (with its meaning), as TOML;
/// - `examples`: more values worth showing, as TOML;
/// - `reload`: `Live` if a reload takes the new value up, `Restart` if only a start does.
///
/// `check` names a function that is called with the struct once it is read. A row that begins with `..` takes keys that
/// another type declares, a [`Part`]. One that begins with `first ..` does so, too, and stands above all others.
///
/// [`Field`]: crate::field::Field
/// [`Kind`]: crate::schema::Kind
/// [`Part`]: crate::field::Part
macro_rules! table {
    (
        $(#[doc = $about:literal])+
        $(#[derive($($derive:ident),+)])?
        pub struct $name:ident = [[$($path:tt)+]] $(, check: $check:path)? { $($rows:tt)* }
    ) => {
        table!(@declare [$($about)+] [$($($derive),+)?] $name,
            name: concat!($(stringify!($path)),+), many: true, check: [$($check)?], { $($rows)* });
    };
    (
        $(#[doc = $about:literal])+
        $(#[derive($($derive:ident),+)])?
        pub struct $name:ident = [$($path:tt)*] $(, check: $check:path)? { $($rows:tt)* }
    ) => {
        table!(@declare [$($about)+] [$($($derive),+)?] $name,
            name: concat!($(stringify!($path)),*), many: false, check: [$($check)?], { $($rows)* });
    };
    (@declare [$($about:literal)+] [$($derive:ident),*] $name:ident,
        name: $path:expr, many: $many:literal, check: [$($check:path)?],
    {
        $(
            first ..
            $(#[doc = $first_summary:literal])+
            $first:ident: $first_type:ty,
        )?
        $(
            $(#[doc = $summary:literal])+
            $field:ident $(as $key:ident)?: $type:ty {
                kind: $kind:expr,
                $given:ident $(($other:literal))?: $toml:literal,
                $(examples: [$($example:literal),+],)?
                reload: $reload:ident
            },
        )*
        $(
            ..
            $(#[doc = $part_summary:literal])+
            $part:ident: $part_type:ty,
        )*
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq $(, $derive)*)]
        pub struct $name {
            $($(#[doc = $first_summary])+ pub $first: $first_type,)?
            $($(#[doc = $summary])+ pub $field: $type,)*
            $($(#[doc = $part_summary])+ pub $part: $part_type,)*
        }

        impl $crate::field::Record for $name {
            const TABLE: &'static $crate::schema::Table = &$crate::schema::Table {
                name: $path,
                many: $many,
                summary: concat!($($about),+).trim_ascii(),
                fields: &[$($crate::schema::Key {
                    name: table!(@key $field $($key)?),
                    kind: $kind,
                    given: table!(@given $given $(($other))? $toml),
                    examples: &[$($($example),+)?],
                    reload: $crate::schema::Reload::$reload,
                    summary: concat!($($summary),+).trim_ascii(),
                }),*],
                first: &[$(<$first_type as $crate::field::Part>::keys)?],
                parts: &[$(<$part_type as $crate::field::Part>::keys),*],
            };

            fn read(section: &$crate::section::Section<'_>) -> Result<Self, $crate::Error> {
                #[allow(unused_mut, reason = "only some tables have a check, which may complete them")]
                let mut record = Self {
                    $($first: $crate::field::Part::read(section)?,)?
                    $($field: $crate::field::read(section, table!(@key $field $($key)?))?,)*
                    $($part: $crate::field::Part::read(section)?,)*
                };
                $($check(&mut record, section)?;)?
                Ok(record)
            }

            fn values(&self) -> Vec<Option<String>> {
                let mut keys = Self::TABLE.fields.iter();
                #[allow(unused_mut, reason = "only some tables have parts")]
                let mut values = Vec::new();
                $(values.extend($crate::field::Part::values(&self.$first));)?
                values.extend([$($crate::field::print(&self.$field, &mut keys)),*] as [Option<String>; Self::TABLE.fields.len()]);
                $(values.extend($crate::field::Part::values(&self.$part));)*
                values
            }

            fn print_tables(&self, out: &mut String) {
                let mut keys = Self::TABLE.fields.iter();
                $($crate::field::Part::print_tables(&self.$first, out);)?
                $($crate::field::print_tables(&self.$field, &mut keys, out);)*
                $($crate::field::Part::print_tables(&self.$part, out);)*
            }

            fn needs_restart(&self, new: &Self, place: &str, changed: &mut Vec<String>) {
                let mut keys = Self::TABLE.fields.iter();
                $($crate::field::Part::needs_restart(&self.$first, &new.$first, place, changed);)?
                $($crate::field::needs_restart(&self.$field, &new.$field, &mut keys, place, changed);)*
                $($crate::field::Part::needs_restart(&self.$part, &new.$part, place, changed);)*
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:ident) => { stringify!($key) };
    (@given default $toml:literal) => { $crate::schema::Given::Default($toml) };
    (@given required $toml:literal) => { $crate::schema::Given::Required($toml) };
    (@given either ($other:literal) $toml:literal) => { $crate::schema::Given::Either($toml, $other) };
    (@given unset $words:literal) => { $crate::schema::Given::Unset($words) };
}

/// Declares an enum whose variants are the words of a [`Kind::Choice`](crate::schema::Kind::Choice).
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $($(#[$about:meta])+ $variant:ident = $word:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$about])+ $variant,)+ }

        impl $name {
            pub(crate) const WORDS: &'static [&'static str] = &[$($word),+];
            const ALL: &'static [Self] = &[$(Self::$variant),+];
        }

        impl $crate::field::Field for $name {
            fn read(item: &$crate::value::Item<'_>) -> Result<Self, $crate::Error> {
                item.choice(Self::ALL)
            }

            fn print(&self, _: &$crate::schema::Key) -> Option<String> {
                let word = match self { $(Self::$variant => $word),+ };
                Some($crate::print::text(word))
            }
        }
    };
}

/// Declares the kinds of handlers: an enum, and the keys of a route; `given` of the enum says which of them is meant.
///
/// A variant's doc comment is the key's text in the manual; the literals are examples, `word` of one in place of the table.
macro_rules! handlers {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $(
                $(#[doc = $summary:literal])+
                $variant:ident($table:ty) = $key:literal, example: $example:literal $(, word: $word:literal)?,
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[doc = $summary])+ $variant($table),)+ }

        impl $name {
            const KEYS: &'static [&'static str] = &[$($key),+];

            /// Reads the handler with a key that is given.
            fn read_key(section: &$crate::section::Section<'_>, key: &str) -> Result<Self, $crate::Error> {
                match key {
                    $($key => handlers!(@read section, $key $(, $word)?).map(Self::$variant),)+
                    _ => unreachable!("one of the keys above"),
                }
            }
        }

        impl $crate::field::Part for $name {
            fn keys() -> Vec<$crate::schema::Key> {
                vec![$($crate::schema::Key {
                    name: $key,
                    kind: handlers!(@kind $table $(, $word)?),
                    given: $crate::schema::Given::Unset("the route has another handler"),
                    examples: &[$example $(, $word)?],
                    reload: $crate::schema::Reload::Live,
                    summary: concat!($($summary),+).trim_ascii(),
                }),+]
            }

            fn read(section: &$crate::section::Section<'_>) -> Result<Self, $crate::Error> {
                Self::read_key(section, Self::given(section)?.0)
            }

            fn values(&self) -> Vec<Option<String>> {
                vec![None; Self::keys().len()]
            }

            fn print_tables(&self, out: &mut String) {
                match self { $(Self::$variant(table) => $crate::field::print_record(table, out),)+ }
            }

            fn needs_restart(&self, _: &Self, _: &str, _: &mut Vec<String>) {}
        }
    };
    (@kind $table:ty) => { $crate::schema::Kind::Table(<$table as $crate::field::Record>::TABLE) };
    (@kind $table:ty, $word:literal) => { <$table as $crate::field::OrWord>::KIND };
    (@read $section:ident, $key:literal) => { $crate::field::read($section, $key) };
    (@read $section:ident, $key:literal, $word:literal) => { $crate::field::read_or_word($section, $key) };
}
