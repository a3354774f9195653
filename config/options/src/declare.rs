//! Structs whose fields are options.

use crate::Value;

/// Type of a field that stores the value of an option.
pub trait Stored {
    /// Stores `value`, which the option's spec has checked; a number too large for the type becomes the largest.
    fn store(&mut self, value: Value);

    /// Returns the stored value.
    fn load(&self) -> Value;
}

impl Stored for bool {
    fn store(&mut self, value: Value) {
        if let Value::Boolean(on) = value {
            *self = on;
        }
    }

    fn load(&self) -> Value {
        Value::Boolean(*self)
    }
}

macro_rules! stored_integer {
    ($($integer:ty),*) => {$(
        impl Stored for $integer {
            fn store(&mut self, value: Value) {
                if let Value::Integer(number) = value {
                    *self = <$integer>::try_from(number).unwrap_or(<$integer>::MAX);
                }
            }

            fn load(&self) -> Value {
                Value::Integer(u64::try_from(*self).unwrap_or(u64::MAX))
            }
        }
    )*};
}

stored_integer!(u32, usize);

/// Declares a plain struct whose fields are options: type, default, bounds, unit and sentence stand once.
///
/// A field's doc comment is the option's sentence for operators; `field as key` gives it another name there. The macro
/// adds `SPECS`, `Default`, `set` and `values`.
///
/// ```
/// sluicegate_options::options! {
///     /// Options of a socket.
///     pub struct SocketOptions {
///         /// Kernel memory for datagrams that wait to be read.
///         receive_buffer: usize { default: 8 << 20, min: 64 << 10, max: 1 << 30, unit: Bytes },
///         /// Lets the kernel deliver several datagrams at once.
///         gro: bool { default: true },
///     }
/// }
/// assert!(SocketOptions::default().gro);
/// assert_eq!(SocketOptions::SPECS[0].name, "receive_buffer");
/// ```
#[macro_export]
macro_rules! options {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $summary:literal])+
                $field:ident $(as $key:ident)?: $type:ty { default: $default:expr $(, $bound:ident: $value:expr)* },
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis struct $name {
            $($(#[doc = $summary])+ $vis $field: $type,)+
        }

        impl $name {
            /// Every option, in the order of the fields.
            $vis const SPECS: &'static [$crate::OptionSpec] = &[$($crate::OptionSpec {
                name: $crate::options!(@key $field $($key)?),
                kind: $crate::options!(@kind $default $(, $bound: $value)*),
                unit: $crate::options!(@unit $($bound: $value),*),
                summary: concat!($($summary),+).trim_ascii(),
            }),+];

            /// Stores a value in the field of the same place in [`Self::SPECS`].
            const SETTERS: &'static [fn(&mut Self, $crate::Value)] =
                &[$(|options, value| $crate::Stored::store(&mut options.$field, value)),+];

            /// Sets one option by its name.
            ///
            /// # Errors
            /// An unknown name, or a value of another type or out of bounds; the option keeps its old value then.
            $vis fn set(
                &mut self,
                name: &str,
                value: $crate::Value,
            ) -> Result<(), $crate::OptionError> {
                let place = $crate::OptionSpec::find(Self::SPECS, name)?;
                Self::SETTERS[place](self, Self::SPECS[place].check(value)?);
                Ok(())
            }

            /// Returns every option with its value, in the order of the fields.
            $vis fn values(
                &self,
            ) -> impl Iterator<Item = (&'static $crate::OptionSpec, $crate::Value)> + use<> {
                Self::SPECS.iter().zip([$($crate::Stored::load(&self.$field)),+])
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:ident) => { stringify!($key) };
    (@kind $default:expr) => {
        $crate::OptionKind::Boolean { default: $default }
    };
    (@kind $default:expr, min: $min:expr, max: $max:expr $(, unit: $unit:expr)?) => {
        $crate::OptionKind::Integer { default: $default, min: $min, max: $max }
    };
    (@unit $(min: $min:expr, max: $max:expr)?) => {
        $crate::Unit::None
    };
    (@unit min: $min:expr, max: $max:expr, unit: $unit:expr) => {
        { use $crate::Unit::*; $unit }
    };
}

#[cfg(test)]
mod tests {
    use crate::{OptionError, OptionKind, Unit, Value};

    crate::options! {
        /// Options of a socket.
        struct Socket {
            /// Kernel memory for datagrams
            /// that wait to be read.
            receive_buffer: usize { default: 8 << 20, min: 64 << 10, max: 1 << 30, unit: Bytes },
            /// Lets the kernel deliver several datagrams at once.
            gro: bool { default: true },
            /// Number of slots.
            count as slots: u32 { default: 1, min: 1, max: 8 },
        }
    }

    #[test]
    fn specs_are_those_declared() {
        let [buffer, gro, slots] = Socket::SPECS else { panic!("three options") };
        assert_eq!(buffer.name, "receive_buffer");
        assert_eq!(buffer.summary, "Kernel memory for datagrams that wait to be read.");
        let kind = OptionKind::Integer { default: 8 << 20, min: 64 << 10, max: 1 << 30 };
        assert_eq!((buffer.kind, buffer.unit), (kind, Unit::Bytes));
        assert_eq!(gro.kind, OptionKind::Boolean { default: true });
        assert_eq!((gro.unit, slots.unit), (Unit::None, Unit::None));
    }

    #[test]
    fn each_option_is_stored_in_its_field() {
        let mut socket = Socket { receive_buffer: 0, gro: false, count: 0 };
        for spec in Socket::SPECS {
            socket.set(spec.name, spec.kind.default_value()).unwrap();
        }
        assert_eq!(socket, Socket::default());
        for (spec, value) in socket.values() {
            assert_eq!(value, spec.kind.default_value(), "{}", spec.name);
        }
    }

    #[test]
    fn refused_value_changes_nothing_and_says_why() {
        let mut socket = Socket::default();
        let unknown = socket.set("recieve_buffer", Value::Integer(1)).unwrap_err();
        assert!(unknown.to_string().ends_with("one of: receive_buffer, gro, slots"));
        assert_eq!(
            socket.set("gro", Value::Integer(1)),
            Err(OptionError::Type { name: "gro", expected: "true or false" })
        );
        assert_eq!(
            socket.set("slots", Value::Integer(9)),
            Err(OptionError::Bounds { name: "slots", min: "1".to_owned(), max: "8".to_owned() })
        );
        assert_eq!(socket, Socket::default());
    }
}
