//! `delay-queue dev`: a throw-away server, which leaves nothing behind.

mod folder;

use std::{error::Error, io};

pub use self::folder::Folder;
use super::{Arguments, output, serve};
use crate::{
    access::{Exposure, Scopes, SecretToken, TokenName, Tokens},
    config::{Flags, Listen, Settings},
    server::{Listeners, open_store},
};

/// A free port that only this machine can reach.
const ANY_PORT: &str = "127.0.0.1:0";

/// A server that is thrown away: its settings, and its store in a temporary folder.
pub struct ThrowAway {
    pub settings: Settings,
    folder: Folder,
}

/// Runs a throw-away server that requires a token, as a real one does. Prints its URL and the
/// token once it listens.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let server = ThrowAway::new(arguments, ANY_PORT)?;
    let token = server.create_token()?;
    server.run(|url, _| {
        output::line(variables(url, Some(&token)))?;
        eprintln!(
            "delay-queue: copy these lines into another shell, and use the client there; the dashboard at {url}/ \
             asks for the token; Ctrl-C stops the server and deletes its jobs"
        );
        Ok(())
    })
}

/// Returns lines for a shell that name the server to clients.
pub fn variables(url: &str, token: Option<&SecretToken>) -> String {
    let token = token.map(|token| format!("\nexport DELAY_QUEUE_TOKEN={}", token.reveal()));
    format!("export DELAY_QUEUE_URL={url}{}", token.unwrap_or_default())
}

impl ThrowAway {
    /// Reads the settings. `listen` is the address unless the arguments name one.
    pub fn new(arguments: &Arguments, listen: &str) -> Result<Self, Box<dyn Error>> {
        let folder = Folder::create(&std::env::temp_dir())?;
        let settings = Settings::load(&Flags {
            file: arguments.config.clone(),
            listen: Some(arguments.listen.clone().unwrap_or_else(|| listen.to_owned())),
            store: Some(format!("file:{}", folder.path().display())),
        })?;
        Ok(Self { settings, folder })
    }

    /// Returns whether other machines can reach the server, which then requires a token.
    pub fn is_exposed(&self) -> bool {
        let addresses = match &self.settings.server.listen {
            Listen::Unix(_) => return false,
            listen => listen.addresses().unwrap_or_default(),
        };
        addresses.iter().any(|address| Exposure::from_address(address.ip()) == Exposure::Network)
    }

    /// Creates a token with every scope.
    pub fn create_token(&self) -> Result<SecretToken, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let store = open_store(&self.settings).await?;
            let name: TokenName = "dev".parse()?;
            let created = Tokens::new(store.clone(), None).create(name, Scopes::all(), None).await;
            store.close().await;
            Ok(created?.0)
        })
    }

    /// Runs the server until a signal, and removes its folder. Calls `listening` with its URL
    /// before it serves.
    pub fn run(
        self,
        listening: impl FnOnce(&str, &Listeners) -> io::Result<()>,
    ) -> Result<(), Box<dyn Error>> {
        let is_tls = self.settings.server.tls.files()?.is_some();
        let result = serve::run(self.settings, |listeners| {
            let text = listeners.public.to_string();
            let url = Listen::try_from(text.clone()).ok().and_then(|listen| listen.url(is_tls));
            listening(&url.unwrap_or(text), listeners)
        });
        self.folder.remove()?;
        result
    }
}
