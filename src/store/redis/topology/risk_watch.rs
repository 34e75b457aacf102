//! Check that a server's settings still keep its jobs, because an operator can change the settings
//! while Redis runs. At the start, `preflight/` refuses such a server. The same answers tell
//! whether Redis was started again.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio_util::task::AbortOnDropHandle;

use crate::store::redis::{preflight::requirements, transport::Connection};

/// Time between two checks.
const INTERVAL: Duration = Duration::from_secs(2);

/// Watch over one server.
pub struct RiskWatch {
    risk: Arc<Risk>,
    _task: AbortOnDropHandle<()>,
}

/// Result of the last check.
struct Risk {
    server: String,
    /// Whether `store.accept_data_loss` is set: a risk is then logged and refuses nothing.
    is_accepted: bool,
    /// The settings that may lose jobs, as a message.
    found: Mutex<Option<Arc<str>>>,
    /// The random text that Redis has from its start to its end.
    run: Mutex<Option<Arc<str>>>,
}

impl RiskWatch {
    pub fn start(server: String, connection: Arc<Connection>, is_accepted: bool) -> Self {
        let risk =
            Arc::new(Risk { server, is_accepted, found: Mutex::default(), run: Mutex::default() });
        let task = tokio::spawn(watch(connection, Arc::clone(&risk)));
        Self { risk, _task: AbortOnDropHandle::new(task) }
    }

    /// Takes over an `INFO` answer with the sections `server`, `memory` and `persistence`.
    pub fn note(&self, info: &str) {
        self.risk.note(info);
    }

    /// Returns the text that tells this run of the server from others, once it is known.
    pub fn run(&self) -> Option<Arc<str>> {
        self.risk.run.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns why the server may lose jobs, unless this is accepted.
    pub fn risk(&self) -> Option<Arc<str>> {
        let found = self.risk.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.clone().filter(|_| !self.risk.is_accepted)
    }
}

impl Risk {
    fn note(&self, info: &str) {
        if requirements::is_loading(info) {
            return;
        }
        let fields = requirements::fields(info);
        let run = fields.get("run_id").map(|&run| run.into());
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = run;
        let risks = requirements::risks(&fields).join("; ");
        let now = (!risks.is_empty()).then(|| Arc::<str>::from(risks));
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if now == *found {
            return;
        }
        let server = &self.server;
        match &now {
            Some(risk) if self.is_accepted => {
                tracing::warn!(server, %risk, "accepted that jobs may be lost");
            }
            Some(risk) => tracing::error!(server, %risk, "puts are refused: jobs may be lost"),
            None => tracing::info!(server, "the settings of Redis keep jobs again"),
        }
        *found = now;
    }
}

async fn watch(connection: Arc<Connection>, risk: Arc<Risk>) {
    let mut question = redis::cmd("INFO");
    question.arg("server").arg("memory").arg("persistence");
    loop {
        // While the server does not answer, the last finding holds.
        if let Ok(answer) = connection.command(&question).await
            && let Ok(info) = redis::from_redis_value::<String>(answer)
        {
            risk.note(&info);
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
