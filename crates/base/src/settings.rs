//! Settings whose defaults stand beside them.

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
