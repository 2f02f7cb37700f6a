//! Enumerations whose values have names: labels of metrics, reasons of refusals.

/// An enumeration whose values have names.
macro_rules! named {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident => $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// Every value.
            pub const ALL: [Self; [$(Self::$variant),+].len()] = [$(Self::$variant),+];

            /// The name in metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The place in [`Self::ALL`], for arrays with one element per value.
            pub const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

pub(crate) use named;
