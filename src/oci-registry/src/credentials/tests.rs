//! The order of the auth files, and which of their keys is used for a repository.

use super::*;
use serde_json::json;

/// Writes an auth file in which the password of each key is the key itself.
fn write(file: &Path, keys: &[&str]) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let auths = keys.iter().map(|key| {
        let auth = STANDARD.encode(format!("alice:{key}"));
        ((*key).to_owned(), json!({"auth": auth}))
    });
    let auths: serde_json::Map<_, _> = auths.collect();
    std::fs::write(file, json!({"auths": auths}).to_string()).unwrap();
}

fn password(files: &[PathBuf], reference: &str) -> Option<String> {
    let credentials = read_files(files, &reference.parse().unwrap()).unwrap();
    credentials.map(|credentials| credentials.password)
}

#[test]
fn auth_files_of_podman_and_docker_are_read_in_podmans_order() {
    let directory = tempfile::tempdir().unwrap();
    let at = |path: &str| directory.path().join(path);
    let run_dir = at("run/containers/0");
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[], "run/containers/0/auth.json"),
        (
            &[("XDG_RUNTIME_DIR", "session")],
            "session/containers/auth.json",
        ),
        (&[("HOME", "home")], "home/.config/containers/auth.json"),
        (
            &[("XDG_CONFIG_HOME", "config")],
            "config/containers/auth.json",
        ),
        (&[("HOME", "home")], "home/.docker/config.json"),
        (&[("DOCKER_CONFIG", "docker")], "docker/config.json"),
        (&[("REGISTRY_AUTH_FILE", "own.json")], "own.json"),
    ];
    for (variables, file) in cases {
        let variable = |name: &str| {
            let mut variables = variables.iter();
            let variable = variables.find(|(key, _)| *key == name);
            variable.map(|(_, value)| at(value).into_os_string())
        };
        let files = auth_files(&variable, &run_dir);
        assert_eq!(password(&files, "r.example/a"), None, "{file}");
        write(&at(file), &["r.example"]);
        let stored = password(&files, "r.example/a");
        assert_eq!(stored.as_deref(), Some("r.example"), "{file}");
        std::fs::remove_file(at(file)).unwrap();
    }
    // The session's file has precedence over the one that outlasts a restart, and podman's files over Docker's.
    let variable = |name: &str| (name == "HOME").then(|| at("home").into_os_string());
    let order = auth_files(&variable, &run_dir);
    for (number, path) in order.iter().enumerate().rev() {
        write(path, &["r.example", &format!("r.example/{number}")]);
        let stored = password(&order, &format!("r.example/{number}"));
        assert_eq!(stored, Some(format!("r.example/{number}")));
    }
    assert_eq!(order.len(), 3);
}

#[test]
fn the_longest_key_of_a_repository_wins() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("auth.json");
    let hub = "https://index.docker.io/v1/";
    let cases: &[(&[&str], &str, Option<&str>)] = &[
        (&["r.example"], "r.example/a/b:1", Some("r.example")),
        (
            &["r.example", "r.example/a"],
            "r.example/a/b",
            Some("r.example/a"),
        ),
        (
            &["r.example/a", "r.example/a/b"],
            "r.example/a/b",
            Some("r.example/a/b"),
        ),
        (&["r.example/a"], "r.example/ab", None),
        (&["r.example/a"], "r.example/b", None),
        (&["r.example"], "r.example:5000/a", None),
        (
            &["https://r.example"],
            "r.example/a",
            Some("https://r.example"),
        ),
        (
            &["https://r.example/v1/"],
            "r.example/a",
            Some("https://r.example/v1/"),
        ),
        (&[hub], "docker.io/library/a", Some(hub)),
        (&[hub], "registry-1.docker.io/library/a", Some(hub)),
        (&["docker.io"], "docker.io/me/a", Some("docker.io")),
        (
            &["docker.io/me", hub],
            "docker.io/me/a",
            Some("docker.io/me"),
        ),
        (
            &["docker.io"],
            "registry-1.docker.io/me/a",
            Some("docker.io"),
        ),
    ];
    for (keys, reference, expected) in cases {
        write(&file, keys);
        let stored = password(std::slice::from_ref(&file), reference);
        assert_eq!(stored.as_deref(), *expected, "{keys:?} {reference}");
    }
}
