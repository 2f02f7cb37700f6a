//! Enumerations whose values have names: in files, reports and metrics.

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
