//! Where settings come from: default < file < environment < flags. Each value is tried by itself, so
//! that all that are wrong are named at once.

use std::collections::BTreeMap;

use config::{Config, ConfigError, File, FileFormat, Map, Source, Value, ValueKind};

use super::{DEFAULTS, Flags, Settings, SettingsError, environment, renamed};

/// The strongest value of each key that is given.
pub type Given = BTreeMap<String, Value>;

/// Reads all sources; what cannot be read is left at its default, and told by `errors`.
pub fn read(flags: &Flags, errors: &mut Vec<SettingsError>) -> Result<Settings, ConfigError> {
    let defaults = File::from_str(DEFAULTS, FileFormat::Toml);
    let defaults = Config::builder().add_source(defaults).build()?;
    let mut given = Given::new();
    if let Some(file) = &flags.file {
        match File::from(file.as_path()).format(FileFormat::Toml).collect() {
            Ok(content) => flatten("", content, &mut given),
            Err(cause) => errors.push(SettingsError::Read(cause)),
        }
    }
    let keys = keys(&with(&defaults, &Given::new())?);
    environment::read(std::env::vars_os(), &keys, &mut given, errors);
    for (key, flag, value) in
        [("server.listen", "--listen", &flags.listen), ("store.url", "--store", &flags.store)]
    {
        if let Some(value) = value {
            given.insert(key.to_owned(), Value::new(Some(&flag.to_owned()), value.clone()));
        }
    }
    given.retain(|key, value| {
        if let Some(new) = renamed::new_name(|old| old == key) {
            errors.push(SettingsError::Renamed { old: key.clone(), new });
            return false;
        }
        let alone = Given::from([(key.clone(), value.clone())]);
        let cause = with(&defaults, &alone).err();
        let fits = cause.is_none();
        errors.extend(cause.map(|cause| SettingsError::Key { key: key.clone(), cause }));
        fits
    });
    with(&defaults, &given)
}

fn with(defaults: &Config, given: &Given) -> Result<Settings, ConfigError> {
    let mut all = Config::builder().add_source(defaults.clone());
    for (key, value) in given {
        all = all.set_override(key, value.clone())?;
    }
    all.build()?.try_deserialize()
}

/// Adds the values within tables by their whole keys.
fn flatten(within: &str, table: Map<String, Value>, given: &mut Given) {
    for (name, value) in table {
        let key = if within.is_empty() { name } else { format!("{within}.{name}") };
        match value.kind {
            ValueKind::Table(table) if !table.is_empty() => flatten(&key, table, given),
            _ => drop(given.insert(key, value)),
        }
    }
}

/// The keys of all settings, also of those that have no value.
fn keys(settings: &Settings) -> Vec<String> {
    fn add(within: &str, value: &serde_json::Value, keys: &mut Vec<String>) {
        match value.as_object() {
            Some(fields) => {
                for (name, value) in fields {
                    let key = [within, name].join(if within.is_empty() { "" } else { "." });
                    add(&key, value, keys);
                }
            }
            None => keys.push(within.to_owned()),
        }
    }
    let mut keys = Vec::new();
    add("", &serde_json::to_value(settings).unwrap_or_default(), &mut keys);
    keys
}
