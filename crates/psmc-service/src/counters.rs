//! Numbers that only rise: counted by many tasks, read by whoever asks for the status.

/// Defines `Counters`, whose methods count one event each, and `Counts`, the numbers at a moment.
#[macro_export]
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Numbers that only rise.
        #[derive(Debug, Default)]
        pub struct Counters { $($name: ::std::sync::atomic::AtomicU64),* }

        /// The numbers at a moment.
        #[derive(Clone, Debug, Default, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        pub struct Counts { $($(#[$doc])* pub $name: u64),* }

        impl Counters {
            $(pub(super) fn $name(&self) { self.$name.fetch_add(1, ::std::sync::atomic::Ordering::Relaxed); })*

            /// The numbers at this moment.
            #[must_use]
            pub fn read(&self) -> Counts {
                Counts { $($name: self.$name.load(::std::sync::atomic::Ordering::Relaxed)),* }
            }
        }
    };
}
