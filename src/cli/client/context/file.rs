//! The file of the contexts: `contexts.toml` in the user's folder for configuration.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::cli::client::failure::Failure;

/// A server by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// Contents of the file. Names must stay stable.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// Name of the context in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_use: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub contexts: BTreeMap<String, Context>,
}

/// Returns the path of the file; `None` without a home.
fn path() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|of| of.is_absolute());
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
    Some(config?.join("delay-queue/contexts.toml"))
}

impl Contexts {
    /// Reads the file; without one, there is no context.
    ///
    /// # Errors
    /// The file is unreadable.
    pub fn read() -> Result<Self, Failure> {
        let Some(path) = path() else { return Ok(Self::default()) };
        let failed = |cause: &dyn std::fmt::Display| {
            let cause = cause.to_string().trim_end().replace('\n', " ");
            Failure::Usage(format!("failed to read the contexts in {}: {cause}", path.display()))
        };
        let text = match fs::read_to_string(&path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            text => text.map_err(|cause| failed(&cause))?,
        };
        // The error of a wrong value would show the line, which may have a token.
        toml::from_str(&text).map_err(|cause| failed(&cause.message()))
    }

    /// Replaces the file. Only its owner may read it, since tokens are in it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self) -> Result<(), Failure> {
        let path = path().ok_or_else(|| {
            let text = "contexts are kept in $XDG_CONFIG_HOME or $HOME/.config: set HOME to an absolute path";
            Failure::Usage(text.to_owned())
        })?;
        self.write_to(&path).map_err(|cause| {
            Failure::Usage(format!("failed to write the contexts to {}: {cause}", path.display()))
        })
    }

    fn write_to(&self, path: &Path) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        // A configuration that is linked from elsewhere stays a link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        // Temporary files have the mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&path)?;
        Ok(())
    }

    /// Returns the context with this name; `from` is the option or variable that has it.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, name: &str, from: &str) -> Result<&Context, Failure> {
        self.contexts.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
            let known = match known.is_empty() {
                true => {
                    "there is no context yet: add one with `delay-queue context add`".to_owned()
                }
                false => format!("the contexts are {}", known.join(", ")),
            };
            Failure::Usage(format!("{from} names the unknown context {name:?}; {known}"))
        })
    }
}
