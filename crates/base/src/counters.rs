//! Counters that are listed once.

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
