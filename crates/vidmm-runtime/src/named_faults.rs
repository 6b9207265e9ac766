//! Faults with names.

/// Declares the faults of a kind, each with its name in scenarios and on the command line.
macro_rules! named_faults {
    ($(#[$doc:meta])* $kind:ident: $($(#[$fault_doc:meta])* $fault:ident, $name:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $kind {
            $($(#[$fault_doc])* $fault),*
        }

        impl $kind {
            /// All of them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$fault),*];

            /// Its name in scenarios and on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$fault => $name),*
                }
            }
        }
    };
}

pub(crate) use named_faults;
