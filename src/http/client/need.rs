//! Tokens and scopes that routes require of their callers.

use crate::access::Scope;

/// Token or scope that a route requires of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: load balancers and orchestrators have no token, and call the server by its address.
    Nothing,
    /// Any token, where the server requires tokens.
    AnyToken,
    /// A token with any of these scopes; refusals name the first.
    AnyOf(&'static [Scope]),
}
