//! Connections to Redis: makes them, replaces lost ones, and confirms writes. `topology` chooses
//! the servers, and `preflight` decides whether they are fit.

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
