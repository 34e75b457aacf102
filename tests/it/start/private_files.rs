//! Files of the program can be read only by its user, whatever the umask is.

use std::os::unix::fs::FileExt;

use crate::start::prelude::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("the file exists").permissions().mode() & 0o777
}

/// Returns all files below a directory that its group or others may access.
fn open_to_others(dir: &Path) -> Vec<String> {
    let entries =
        fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("its name").path());
    let each = entries.flat_map(|path| {
        let own = (mode(&path) & 0o077 != 0).then(|| format!("{path:?} {:o}", mode(&path)));
        let below = if path.is_dir() { open_to_others(&path) } else { Vec::new() };
        own.into_iter().chain(below)
    });
    each.collect()
}

async fn put_and_stop(place: &WorkDir, folder: &str) {
    let mut server = place.server(&store(&format!("file:./{folder}"), "")).await;
    server.put_job(json!({"topic": "t", "body": "private"})).await;
    let data = place.path().join(folder);
    assert!(data.join("jobs.db-wal").exists() && data.join("ballast").exists());
    assert_eq!(open_to_others(&data), [""; 0]);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn data_exports_and_repairs_are_private_files() {
    let place = WorkDir::new();
    let dir = place.path();
    put_and_stop(&place, "above/data").await;
    let data = dir.join("above/data");
    assert_eq!(mode(&data), 0o700);
    let run = |arguments: &[&str]| {
        let arguments = [&["--store", "file:./above/data"], arguments].concat();
        place.assert_succeeds(&arguments, &[]);
    };
    run(&["export", "jobs.ndjson"]);
    assert_eq!(mode(&dir.join("jobs.ndjson")), 0o600);
    // Damages the page of the table `layout`, without which the store cannot be opened.
    let file = fs::File::options().write(true).open(data.join("jobs.db")).expect("the file");
    file.write_all_at(&[0; 4096], 2 * 4096).expect("written");
    run(&["doctor", "--repair"]);
    let kept = fs::read_dir(&data).expect("a directory").map(|entry| entry.expect("its name"));
    let is_kept = |name: &str| name.starts_with("damaged-");
    assert!(kept.map(|entry| entry.file_name()).any(|name| name.to_str().is_some_and(is_kept)));
    assert_eq!(open_to_others(&data), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_directory_keeps_its_mode() {
    let place = WorkDir::new();
    let data = place.path().join("data");
    fs::create_dir(&data).expect("made");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).expect("set");
    put_and_stop(&place, "data").await;
    assert_eq!(mode(&data), 0o755);
}
