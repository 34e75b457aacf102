//! Access control: tokens, their scopes, and which of them are in force.
//!
//! A token is 256 random bits. Stores keep its SHA-256 and its scopes; each server keeps all tokens
//! in memory, so that it checks a request without a call, a lock or an await. This module knows no
//! HTTP.

mod keeper;
mod name;
mod scope;
mod secret;
mod sync;
mod token;
mod tokens;

pub use keeper::{Access, BOOTSTRAP, Denied, Exposure};
pub use name::TokenName;
pub use scope::{Scope, Scopes, ScopesError};
pub use secret::{SecretToken, SecretTokenError, TokenHash, masked};
pub use sync::{UnreadableToken, keep_in_sync, refresh};
pub use token::Token;
pub use tokens::{SHOWN_ONCE, TokenError, Tokens};
