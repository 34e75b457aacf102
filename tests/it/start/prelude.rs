//! Names that most tests of this folder use.

pub use crate::prelude::*;
pub use crate::{
    start::{
        client::Shell,
        https::{Https, https},
        output,
        outputs::{
            Logged, WorkDir, assert_empty, bootstrap, fails, logged, one_line, secret, started,
            store, text,
        },
        tls::{Authority, Files},
    },
    support::{
        events::{until_pops_wait, until_read, waiting_pops},
        file_log::flip_the_middle,
        process::{resident_of, sockets},
        redis_server,
        signal::{Killed, freeze, send_signal},
    },
};
pub use delay_queue::{access::SecretToken, http::Code};
pub use rcgen::CertificateParams;
pub use std::{
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    process::{Child, Output, Stdio},
    thread,
};
