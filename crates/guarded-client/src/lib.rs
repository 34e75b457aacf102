#![doc = include_str!("../README.md")]

mod address;
mod allowed;
mod answer;
mod client;
mod connect;
mod connection;
mod failure;
mod lookups;
mod options;
mod pool;
mod proxy;
mod resolve;
mod stream;
mod tls;
mod url;

pub use self::{
    address::{AddressClass, is_public},
    allowed::{Allowed, Refused},
    answer::Answer,
    client::{Client, MAX_OWN_LOOKUPS, is_dropped},
    failure::Failure,
    options::{ClientError, Limits, Options},
    proxy::ProxyUrl,
    resolve::{Resolve, Resolving, SystemResolver},
    url::{Target, TargetUrl, UrlError},
};
