//! What people call a token.

use crate::job::name::name;

name! {
    /// A token's name: `[A-Za-z0-9._-]{1,128}`, except `.` and `..`. There is one token of a name:
    /// rotation is a second token under another name, and then a revocation of the first.
    TokenName, b"._-", "A-Z a-z 0-9 . _ -"
}
