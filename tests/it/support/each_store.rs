//! One suite for every store.

/// Runs each case with what each store opens: a test `on_redis::<case>` calls `<module>::<case>`
/// with what stands beside `on_redis`.
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
