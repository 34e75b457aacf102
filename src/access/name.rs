//! Names of tokens.

delay_queue_core::name! {
    /// The name of a token: `[A-Za-z0-9._-]{1,128}`, except `.` and `..`. Names are unique: to
    /// rotate a token, create one with another name, then revoke the old one.
    TokenName, b"._-", "A-Z a-z 0-9 . _ -"
}
