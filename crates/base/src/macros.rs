//! Definitions from one list: enums with names, counters, settings with their defaults.

/// Defines an enumeration from one list of its values and their names.
#[macro_export]
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $type:ident { $($(#[$doc:meta])* $value:ident => $name:expr,)+ }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[$doc])* $value,)+
        }

        impl $type {
            /// Every value, in the order in which they are defined.
            pub const ALL: [Self; [$(Self::$value),+].len()] = [$(Self::$value),+];

            /// The name in files, reports and metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }

            /// The value of this name.
            #[must_use]
            pub fn of_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }

            /// The place in [`Self::ALL`], for arrays with one element for each value.
            #[must_use]
            pub const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

/// Defines a struct of counters from one list: its fields, their names and values in this order, and how such
/// counts are added and subtracted.
#[macro_export]
macro_rules! counters {
    (
        $(#[$about:meta])*
        $seen:vis struct $type:ident { $($(#[$doc:meta])* $name:ident,)+ }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        $seen struct $type {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl $type {
            /// The names of all counters.
            pub const NAMES: [&'static str; [$(stringify!($name)),+].len()] = [$(stringify!($name)),+];

            /// The values, in the order of [`Self::NAMES`].
            #[must_use]
            pub const fn values(&self) -> [u64; Self::NAMES.len()] {
                [$(self.$name),+]
            }

            /// What was counted since `earlier`.
            #[must_use]
            pub const fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(earlier.$name),)+ }
            }
        }

        impl std::ops::AddAssign for $type {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)+
            }
        }
    };
}

/// Defines a struct of settings and its [`Default`], each field with the value that it has there.
#[macro_export]
macro_rules! settings {
    (
        $(#[$about:meta])*
        $seen:vis struct $type:ident {
            $($(#[$doc:meta])* $field_seen:vis $field:ident: $of:ty = $default:expr,)+
        }
    ) => {
        $(#[$about])*
        $seen struct $type {
            $($(#[$doc])* $field_seen $field: $of,)+
        }

        impl Default for $type {
            fn default() -> Self {
                Self {
                    $($field: $default,)+
                }
            }
        }
    };
}
