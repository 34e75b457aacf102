//! JSON Schemas of values and of rules between fields.

/// Implements `JsonSchema`. A type with a name becomes a component, others are inlined.
macro_rules! schemas {
    ($($type:ty $(, $name:literal)? => $schema:expr;)+) => {
        $(impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                [$($name,)? stringify!($type)][0].into()
            }

            fn inline_schema() -> bool {
                [$($name,)? ""][0].is_empty()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let schema: fn(&mut schemars::SchemaGenerator) -> schemars::Schema = $schema;
                schema(generator)
            }
        })+
    };
}

pub(super) use schemas;

pub mod push;
pub mod rules;
pub mod schedule;
pub mod types;
