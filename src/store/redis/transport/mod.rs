//! Connections to Redis: dialed, kept up, and with confirmed writes. Which server to connect to,
//! and whether it is fit, are decided in `topology` and `preflight`.

pub mod confirmation;
pub mod confirmed;
pub mod connection;
pub mod dialer;
pub mod error;
pub mod node;

pub use self::{
    confirmation::Confirmation,
    confirmed::Write,
    connection::{Connect, Connected, Connection},
    dialer::{CONNECT_TIMEOUT, Dialer},
    error::Failure,
    node::Node,
};
