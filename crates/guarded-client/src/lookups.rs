//! Look-ups of names: each name once at a time, and failures are remembered for a moment, so that
//! names whose name server is silent leave places for others.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::Instant,
};

use crate::resolve::Resolve;

/// Look-ups at once of names whose last look-up succeeded, and of all others. A name that never
/// had an address, or whose name server went silent, takes no place of one that works.
const PLACES: [usize; 2] = [16, 48];
/// How long a failure is remembered.
const FAILED_FOR: Duration = Duration::from_secs(5);
/// How long a success is remembered, to choose the place of the next look-up.
const KNOWN_FOR: Duration = Duration::from_secs(3_600);
/// Number of names at which names with an old result are removed.
const MAX_NAMES: usize = 1_024;

type Found = Result<Vec<SocketAddr>, (io::ErrorKind, String)>;
type Pending = watch::Receiver<Option<Found>>;

/// Look-ups of all names.
pub(crate) struct Lookups {
    resolver: Arc<dyn Resolve>,
    known: Arc<Semaphore>,
    others: Arc<Semaphore>,
    names: Mutex<HashMap<(String, u16), Entry>>,
}

enum Entry {
    Running(Pending),
    Failed { error: (io::ErrorKind, String), until: Instant },
    Known { until: Instant },
}

impl Lookups {
    pub(crate) fn new(resolver: Arc<dyn Resolve>) -> Self {
        let [known, others] = PLACES.map(|places| Arc::new(Semaphore::new(places)));
        Self { resolver, known, others, names: Mutex::default() }
    }

    /// Returns the addresses of a name, which are never none. A look-up that this caller starts
    /// takes one of the places of `own` until it ends, even if the caller does not wait for it.
    pub(crate) async fn resolve(
        self: &Arc<Self>,
        name: &(String, u16),
        own: &Arc<Semaphore>,
    ) -> io::Result<Vec<SocketAddr>> {
        let mut place = None;
        let mut pending = loop {
            if let Some(pending) = self.join_or_start(name, &mut place)? {
                break pending;
            }
            place = Some(own.clone().acquire_owned().await.map_err(io::Error::other)?);
        };
        let found = pending.wait_for(Option::is_some).await.map_err(io::Error::other)?.clone();
        let found = found.unwrap_or_else(|| Ok(Vec::new()));
        found.map_err(|(kind, text)| io::Error::new(kind, text))
    }

    /// Joins the look-up of a name that is under way, or starts one if there is a `place` for it.
    ///
    /// # Errors
    ///
    /// The error of a look-up that failed a moment ago.
    fn join_or_start(
        self: &Arc<Self>,
        name: &(String, u16),
        place: &mut Option<OwnedSemaphorePermit>,
    ) -> io::Result<Option<Pending>> {
        let (mut names, now) = (self.lock(), Instant::now());
        let places = match names.get(name) {
            Some(Entry::Running(pending)) => return Ok(Some(pending.clone())),
            Some(Entry::Failed { error: (kind, text), until }) if now < *until => {
                return Err(io::Error::new(*kind, text.clone()));
            }
            Some(Entry::Known { until }) if now < *until => &self.known,
            _ => &self.others,
        };
        let Some(own) = place.take() else { return Ok(None) };
        let (sender, pending) = watch::channel(None);
        let (lookups, name, places) = (Arc::clone(self), name.clone(), Arc::clone(places));
        names.insert(name.clone(), Entry::Running(pending.clone()));
        tokio::spawn(async move {
            let found = lookups.look_up(&name, places).await;
            lookups.remember(name, &found);
            sender.send_replace(Some(found));
            drop(own);
        });
        Ok(Some(pending))
    }

    async fn look_up(&self, (host, port): &(String, u16), places: Arc<Semaphore>) -> Found {
        let found = match places.acquire().await {
            Ok(_place) => self.resolver.resolve(host, *port).await,
            Err(closed) => Err(io::Error::other(closed)),
        };
        match found {
            Ok(found) if found.is_empty() => {
                Err((io::ErrorKind::NotFound, "the name has no address".to_owned()))
            }
            found => found.map_err(|error| (error.kind(), error.to_string())),
        }
    }

    fn remember(&self, name: (String, u16), found: &Found) {
        let (mut names, now) = (self.lock(), Instant::now());
        if names.len() > MAX_NAMES {
            names.retain(|_, entry| match entry {
                Entry::Running(_) => true,
                Entry::Failed { until, .. } | Entry::Known { until } => now < *until,
            });
        }
        if names.len() > MAX_NAMES {
            names.retain(|_, entry| matches!(entry, Entry::Running(_)));
        }
        let entry = match found {
            Ok(_) => Entry::Known { until: now + KNOWN_FOR },
            Err(error) => Entry::Failed { error: error.clone(), until: now + FAILED_FOR },
        };
        names.insert(name, entry);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, u16), Entry>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
