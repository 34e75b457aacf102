//! One suite for every store.

/// Runs each case on each store: a test `on_redis::<case>` calls `<module>::<case>` with the value
/// of the expression after `on_redis`.
macro_rules! on_each_store {
    ({ $($store:ident: $open:expr),+ $(,)? } $cases:tt) => {
        $(mod $store {
            on_each_store! { @cases ($open) $cases }
        })+
    };
    (@cases ($open:expr) { $($module:ident: $($case:ident),+ $(,)?;)+ }) => {
        $($(#[tokio::test(flavor = "multi_thread")]
        async fn $case() {
            super::$module::$case($open).await;
        })+)+
    };
}
