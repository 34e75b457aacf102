//! Runs one suite of test cases on every store.

/// Generates a test for each case on each store. The test `on_redis::<case>` calls
/// `<module>::<case>` with the value of the expression after `on_redis`.
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
