//! Paths of sockets that are refused, and dialling.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::*;

fn socket_path(plugin: &str, path: &str) -> Result<PluginSocket, SocketError> {
    PluginSocket::new(Path::new("/var/run/kubevirt-plugin"), plugin, path)
}

#[test]
fn a_socket_outside_of_its_plugins_directory_is_refused() {
    let own_directory = socket_path("numa", "/var/run/kubevirt-plugin/numa/sub/hook.sock").unwrap();
    assert_eq!(
        own_directory.directory(),
        Path::new("/var/run/kubevirt-plugin/numa/sub")
    );
    assert_eq!(own_directory.file(), "hook.sock");
    let unnormalized = socket_path(
        "numa",
        "/var/run//kubevirt-plugin/./other/../numa/hook.sock",
    );
    assert_eq!(
        unnormalized.unwrap().path(),
        Path::new("/var/run/kubevirt-plugin/numa/hook.sock")
    );
    for (plugin, path) in [
        ("numa", "/var/run/kubevirt-plugin/other/hook.sock"),
        ("numa", "/var/run/kubevirt-plugin/numa/../other/hook.sock"),
        ("numa", "/var/run/kubevirt-plugin/numa"),
        ("numa", "/var/run/kubevirt-plugin/numa/"),
        ("numa", "/var/run/kubevirt-plugin/numa-2/hook.sock"),
        ("numa", "/run/libvirt/virtqemud-sock"),
        ("numa", "hook.sock"),
        ("numa", ""),
        ("", "/var/run/kubevirt-plugin/hook.sock"),
        ("..", "/var/run/kubevirt-plugin/../hook.sock"),
        ("../libvirt", "/var/run/libvirt/virtqemud-sock"),
        ("a/b", "/var/run/kubevirt-plugin/a/b/hook.sock"),
    ] {
        let error = socket_path(plugin, path).unwrap_err().to_string();
        assert!(error.contains("is outside"), "{plugin} {path}: {error}");
    }
    assert!(socket_path("numa", "/var/run/kubevirt-plugin/numa/a\0b").is_err());
}

async fn dial(plugins: &Path, path: &str) -> Result<UnixStream, SocketError> {
    let path = plugins.join(path).display().to_string();
    let socket_path = PluginSocket::new(plugins, "numa", &path).unwrap();
    socket_path.dial(Duration::from_millis(30)).await
}

#[tokio::test]
async fn symbolic_links_in_a_socket_path_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let plugins = dir.path();
    for name in ["numa", "numa/real", "other"] {
        std::fs::create_dir(plugins.join(name)).unwrap();
    }
    let _socket = UnixListener::bind(plugins.join("numa/real/hook.sock")).unwrap();
    let _other = UnixListener::bind(plugins.join("other/hook.sock")).unwrap();
    symlink("../other/hook.sock", plugins.join("numa/link.sock")).unwrap();
    symlink("real", plugins.join("numa/linked")).unwrap();
    std::fs::write(plugins.join("numa/file.sock"), "").unwrap();

    assert!(dial(plugins, "numa/real/hook.sock").await.is_ok());
    for (path, part) in [
        ("numa/link.sock", "is a symlink, which is not allowed"),
        (
            "numa/linked/hook.sock",
            "is a symlink, which is not allowed",
        ),
        ("numa/file.sock", "is not a socket"),
        ("numa/real", "is not a socket"),
        ("numa/file.sock/x", "is not a directory"),
        ("numa/none.sock", "not ready after 30ms"),
        ("numa/none/hook.sock", "not ready after 30ms"),
    ] {
        let error = dial(plugins, path).await.unwrap_err().to_string();
        assert!(error.contains(part), "{path}: {error}");
    }
}

#[tokio::test]
async fn a_socket_whose_path_does_not_fit_into_an_address_is_dialled() {
    let dir = tempfile::tempdir().unwrap();
    let long = "x".repeat(150);
    let deep = dir.path().join("numa").join(&long);
    std::fs::create_dir_all(&deep).unwrap();
    // The socket is bound under a short name and renamed, because the long path does not fit into an address.
    let _socket = UnixListener::bind(dir.path().join("s")).unwrap();
    std::fs::rename(dir.path().join("s"), deep.join("s")).unwrap();
    assert!(dial(dir.path(), &format!("numa/{long}/s")).await.is_ok());
}

#[tokio::test]
async fn a_socket_without_a_listener_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("numa")).unwrap();
    drop(UnixListener::bind(dir.path().join("numa/dead.sock")).unwrap());
    let error = dial(dir.path(), "numa/dead.sock").await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
}
