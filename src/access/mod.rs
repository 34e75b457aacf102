//! Who may do what: tokens, their scopes, and which of them are in force.
//!
//! A token is 256 random bits. Stores have its SHA-256 and what it may do; each server keeps all of
//! them in memory, so that a request is checked without a call, a lock or an await. Nothing here
//! knows HTTP.

mod follow;
mod keeper;
mod name;
mod scope;
mod secret;
mod token;
mod tokens;

pub use follow::{UnreadableToken, follow, refresh};
pub use keeper::{Access, BOOTSTRAP, Denied, Exposure};
pub use name::TokenName;
pub use scope::{Scope, Scopes, ScopesError};
pub use secret::{SecretToken, SecretTokenError, TokenHash, masked};
pub use token::Token;
pub use tokens::{SHOWN_ONCE, TokenError, Tokens};
