//! Tests of the real binary: starts, refused starts, stops, commands, and the examples of the
//! documentation.

mod access;
mod admin_listener;
mod api_page;
mod bench;
mod client;
mod client_context;
mod client_dev;
mod client_input;
mod client_post;
mod client_top;
mod client_work;
mod commands;
mod connections;
mod damaged;
mod docs;
mod doctor;
mod exposed;
mod hostile;
mod http2;
mod https;
mod limits;
mod logs;
mod memory;
mod moving;
mod openapi;
mod outputs;
mod prelude;
mod private_files;
mod protected_servers;
mod readme_consumer;
mod refusals;
mod reset_streams;
mod settings;
mod signals;
mod store_urls;
mod tls;
mod tokens;
#[cfg(feature = "otlp")]
mod traces;
mod transports;
mod unix_socket;
mod upgrading;
mod waiting_for_redis;

/// Runs the program to its end, without waiting for an unavailable store.
pub fn output(dir: &std::path::Path, arguments: &[&str]) -> std::process::Output {
    let mut command = crate::support::process::program(dir, arguments);
    command.env("DELAY_QUEUE__STORE__CONNECT_TIMEOUT", "0").output().expect("the program runs")
}
