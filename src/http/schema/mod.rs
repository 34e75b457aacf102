//! JSON Schemas of single values, and of the rules between fields.

/// Types and their schemas. One with a name is a component, the others stand where they are used.
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

pub mod rules;
pub mod types;
