//! TLS to one Redis, to Sentinels and their master, and to a cluster. Each test creates its own
//! certificates.

use rcgen::{BasicConstraints, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::start::prelude::*;

/// A certificate authority. Its own certificate is in the file `<name>.pem` of a [`WorkDir`].
pub struct Authority {
    pub file: String,
    issuer: Issuer<'static, KeyPair>,
}

pub struct Files {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new(place: &WorkDir, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("a certificate");
        let file = place.file(&format!("{name}.pem"), &cert.pem());
        Self { file, issuer: Issuer::new(params, key) }
    }

    pub fn sign(&self, place: &WorkDir, host: &str) -> Files {
        self.sign_with(place, host, |_| {})
    }

    /// Signs a certificate with changed parameters, such as its times.
    pub fn sign_with(
        &self,
        place: &WorkDir,
        host: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Files {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![host.to_owned()]).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, host);
        change(&mut params);
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        let name = free_port(); // a unique number
        Files {
            cert: place.file(&format!("{name}.pem"), &cert.pem()),
            key: place.file(&format!("{name}.key"), &key.serialize_pem()),
        }
    }
}

impl Files {
    /// Returns the arguments for redis-server.
    fn arguments<'a>(&'a self, port: &'a str, authority: &'a Authority) -> Vec<&'a str> {
        let ca = authority.file.as_str();
        let mut all = vec!["--tls-port", port, "--tls-ca-cert-file", ca];
        all.extend(["--tls-cert-file", &self.cert, "--tls-key-file", &self.key]);
        all
    }

    /// Returns the lines for the settings of delay-queue.
    pub fn settings(&self) -> String {
        format!("cert_file = \"{}\"\nkey_file = \"{}\"\n", self.cert, self.key)
    }
}

fn ca(authority: &Authority) -> String {
    format!("ca_file = \"{}\"\n", authority.file)
}

struct TlsRedis {
    _process: Killed,
    url: String,
}

impl TlsRedis {
    fn start(place: &WorkDir, authority: &Authority, host: &str, client_auth: &str) -> Self {
        let (port, files) = (free_port(), authority.sign(place, host));
        let text = port.to_string();
        let dir = place.path().display().to_string();
        let child = redis_server()
            .args(["--port", "0", "--bind", "127.0.0.1", "--dir", &dir, "--save", ""])
            .args(["--appendonly", "yes", "--appenddirname", &format!("aof-{port}")])
            .args(["--tls-auth-clients", client_auth])
            .args(files.arguments(&text, authority))
            .spawn()
            .expect("redis-server is installed");
        let redis = Self { _process: Killed(child), url: format!("rediss://127.0.0.1:{port}") };
        let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        eventually_blocking!(listens(), "redis-server does not listen");
        redis
    }
}

/// Starts a server with these settings, and requires that it delivers a delayed job.
async fn assert_works(place: &WorkDir, settings: &str) {
    place.assert_healthy(settings, &[]);
    let server = place.server(settings).await;
    server.put_job(json!({"topic": "t", "delay": "50ms", "body": "safe"})).await;
    let (_, popped) = server.get("/topics/t/pop?wait=10s").await;
    assert_eq!(popped["jobs"][0]["body"], "safe", "{popped}");
    place.assert_healthy(settings, &["of delay-queue running"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_trusted_certificate_of_the_host_is_accepted() {
    let place = WorkDir::new();
    let (ours, others) = (Authority::new(&place, "ours"), Authority::new(&place, "others"));
    let redis = TlsRedis::start(&place, &ours, "127.0.0.1", "no");
    assert_works(&place, &store(&redis.url, &ca(&ours))).await;
    // This Redis does not require a client certificate, but accepts one.
    let shown = ca(&ours) + &ours.sign(&place, "client").settings();
    assert_works(&place, &store(&redis.url, &shown)).await;

    let refused = |settings: &str, word: &str| {
        place.refused(settings, &["failed to open", word]);
        place.assert_problem(settings, &[word]);
    };
    let unnamed = "signed by no trusted authority: name the authority by store.ca_file";
    refused(&store(&redis.url, ""), unnamed);
    refused(&store(&redis.url, &ca(&others)), "certificate");
    refused(&store(&redis.url, "ca_file = \"nowhere.pem\""), "nowhere.pem");
    refused(&store(&redis.url.replace("rediss", "redis"), ""), "127.0.0.1");
    let elsewhere = TlsRedis::start(&place, &ours, "redis.example", "no");
    refused(&store(&elsewhere.url, &ca(&ours)), "add the requested host to its subjectAltName");

    for (name, text) in [("empty.pem", ""), ("text.pem", "no certificate\n")] {
        let file = place.file(name, text);
        refused(&store(&redis.url, &format!("ca_file = \"{file}\"")), name);
        let pair = format!("{}cert_file = \"{file}\"\nkey_file = \"{file}\"", ca(&ours));
        refused(&store(&redis.url, &pair), name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_requires_client_certificates() {
    let place = WorkDir::new();
    let (ours, others) = (Authority::new(&place, "ours"), Authority::new(&place, "others"));
    let redis = TlsRedis::start(&place, &ours, "127.0.0.1", "yes");
    let known = ca(&ours) + &ours.sign(&place, "client").settings();
    assert_works(&place, &store(&redis.url, &known)).await;
    let unknown = ca(&ours) + &others.sign(&place, "client").settings();
    for settings in [ca(&ours), unknown] {
        let settings = store(&redis.url, &settings);
        place.assert_unfit(&settings, &["failed to open Redis at 127.0.0.1"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_and_the_master_that_they_name() {
    let place = WorkDir::new();
    let authority = Authority::new(&place, "ours");
    let files = authority.sign(&place, "127.0.0.1");
    let port = free_port().to_string();
    let secure = files.arguments(&port, &authority);
    let _master =
        Redis::with(&[&["--appendonly", "yes", "--tls-replication", "yes"], &secure[..]].concat());

    let (plain, own) = (free_port(), free_port());
    let text = format!(
        "port {plain}\nbind 127.0.0.1\ndir {}\ntls-port {own}\ntls-replication yes\n\
         tls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\n\
         sentinel monitor main 127.0.0.1 {port} 1\n",
        place.path().display(),
        files.cert,
        files.key,
        authority.file
    );
    let file = place.file("sentinel.conf", &text);
    let child = redis_server().arg(file).arg("--sentinel").spawn();
    let url = format!("rediss+sentinel://127.0.0.1:{own}/main");
    let _sentinel = Killed(child.expect("redis-server is installed"));
    let question = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"];
    let answers = || ask(plain, &question).is_some_and(|told| told.list().len() == 2);
    eventually_blocking!(answers(), "the Sentinel does not answer");

    let known = ca(&authority) + &files.settings();
    assert_works(&place, &store(&url, &known)).await;
    place.refused(&store(&url, &ca(&authority)), &["by its Sentinels", "127.0.0.1"]);
    let plain = format!("redis+sentinel://127.0.0.1:{plain}/main");
    place.refused(&store(&plain, ""), &["failed to open Redis at 127.0.0.1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_a_cluster() {
    const NODES: usize = 3;
    let place = WorkDir::new();
    let authority = Authority::new(&place, "ours");
    let files = authority.sign(&place, "127.0.0.1");
    let ports: Vec<[String; 2]> =
        (0..NODES).map(|_| [free_port().to_string(), free_port().to_string()]).collect();
    let start = |[port, bus]: &[String; 2]| {
        let secure = files.arguments(port, &authority);
        let cluster = ["--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port", bus];
        Redis::with(&[&["--appendonly", "yes"], &cluster[..], &secure].concat())
    };
    let nodes: Vec<Redis> = ports.iter().map(start).collect();
    let ok = |node: usize, words: &[&str]| {
        let answer = ask(nodes[node].port(), words).expect("an answer");
        assert_eq!(answer.text(), "OK", "{words:?}: {answer:?}");
    };
    for (node, [port, bus]) in ports.iter().enumerate() {
        ok(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(node + 1).to_string()]);
        let (from, to) = (16_384 * node / NODES, 16_384 * (node + 1) / NODES - 1);
        ok(node, &["CLUSTER", "ADDSLOTSRANGE", &from.to_string(), &to.to_string()]);
        if node > 0 {
            ok(0, &["CLUSTER", "MEET", "127.0.0.1", port, bus]);
        }
    }
    let serves = |node: &Redis| {
        let info = ask(node.port(), &["CLUSTER", "INFO"]).expect("an answer");
        info.text().contains("cluster_state:ok")
            && info.text().contains(&format!("cluster_known_nodes:{NODES}"))
    };
    eventually_blocking!(nodes.iter().all(serves), "the nodes have not joined one cluster");

    let url = format!("rediss+cluster://127.0.0.1:{}", ports[0][0]);
    let known = ca(&authority) + &files.settings();
    assert_works(&place, &store(&url, &known)).await;
    let said = place.assert_healthy(&store(&url, &known), &["role master"]);
    for [port, _] in &ports {
        assert!(said.contains(&format!("127.0.0.1:{port}:")), "{said}");
    }
    place.refused(&store(&url, &ca(&authority)), &["failed to open the cluster"]);
}
