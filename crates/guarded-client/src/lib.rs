#![doc = include_str!("../README.md")]

mod address;
mod allowed;
mod answer;
mod client;
mod connect;
mod failure;
mod options;
mod proxy;
mod resolve;
mod stream;
mod tls;
mod url;

pub use self::{
    address::{AddressClass, is_public},
    allowed::{Allowed, Refused},
    answer::Answer,
    client::Client,
    failure::Failure,
    options::{ClientError, Limits, Options},
    proxy::ProxyUrl,
    resolve::{Resolve, Resolving, SystemResolver},
    url::{Target, TargetUrl, UrlError},
};
