//! Tests of the server for libvirt's hook, with clients that behave as virt-hook and as KubeVirt's client.

use kubevirt_api::libvirt_migration_hook_protocol::{announced, read_refusal};

use super::*;
use crate::unix_listener;

/// A recorded document of libvirt's, which KubeVirt's client passes on unchanged
/// (tests/corpus/libvirt-hook-calls/README.md).
const RECORDED_XML: &str =
    include_str!("../../../../tests/corpus/libvirt-hook-calls/migrate-begin.stdin.xml");
const DOMAIN: &str = "<domain><name>a</name></domain>\n";

fn server(directory: &tempfile::TempDir) -> (HookServer, PathBuf) {
    let path = directory.path().join("hook-socket");
    let edit: EditDomain = Arc::new(|xml: String| {
        Box::pin(async move {
            match xml.contains("refuse") {
                true => Err("hook a may not change /domain/memory".to_owned()),
                false => Ok(xml.replace("<name>a", "<name>b")),
            }
        })
    });
    let socket = unix_listener::bind(&path).unwrap();
    (HookServer::start(socket, &path, edit).unwrap(), path)
}

/// Sends a request, closes this side of the connection if `closes`, and returns the answer.
async fn ask(path: &Path, request: &str, closes: bool) -> String {
    let mut connection = UnixStream::connect(path).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    if closes {
        connection.shutdown().await.unwrap();
    }
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn any_number_of_hooks_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let (server, path) = server(&directory);
    for closes in [false, true, false] {
        let answer = ask(&path, DOMAIN, closes).await;
        assert_eq!(answer, "<domain><name>b</name></domain>\n");
    }
    drop(server);
    assert!(!path.exists());
}

/// Sends a document as KubeVirt's client does: in pieces, and without closing its side of the connection. Returns the
/// answer.
async fn ask_as_kubevirts_client(path: &Path, document: &str, piece: usize) -> Vec<u8> {
    let mut connection = UnixStream::connect(path).await.unwrap();
    for bytes in document.as_bytes().chunks(piece) {
        connection.write_all(bytes).await.unwrap();
    }
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn kubevirts_client_gets_the_edited_domain() {
    let directory = tempfile::tempdir().unwrap();
    let (server, path) = server(&directory);
    server.replace(Arc::new(|xml: String| {
        Box::pin(async move { Ok(xml.replace("<name>default_vm1<", "<name>edited<")) })
    }));
    let expected = RECORDED_XML.replace("<name>default_vm1<", "<name>edited<");
    assert_ne!(expected, RECORDED_XML);
    // KubeVirt's client copies a pipe, in pieces of 32 KiB or of the pipe's size.
    for piece in [RECORDED_XML.len(), 1000, 1] {
        let answer = ask_as_kubevirts_client(&path, RECORDED_XML, piece).await;
        assert!(answer == expected.as_bytes(), "pieces of {piece} bytes");
    }
    server.replace(Arc::new(|_| Box::pin(async { Err("no".to_owned()) })));
    let refused = ask_as_kubevirts_client(&path, RECORDED_XML, RECORDED_XML.len()).await;
    assert_eq!(
        refused, b"",
        "an empty answer is the only failure in KubeVirt's protocol"
    );
}

#[tokio::test]
async fn newline_may_be_written_after_the_answer() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, path) = server(&directory);
    let mut connection = UnixStream::connect(&path).await.unwrap();
    let (document, line_end) = DOMAIN.split_at(DOMAIN.len() - 1);
    connection.write_all(document.as_bytes()).await.unwrap();
    let mut answer = vec![0; document.len()];
    connection.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, document.replace("<name>a", "<name>b").as_bytes());
    assert_eq!(connection.read(&mut [0]).await.unwrap(), 0, "all of it");
    connection.write_all(line_end.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn connection_survives_the_replacement_of_the_edit_function() {
    let directory = tempfile::tempdir().unwrap();
    let (server, path) = server(&directory);
    let mut early = UnixStream::connect(&path).await.unwrap();
    let (begin, end) = DOMAIN.split_at(10);
    early.write_all(begin.as_bytes()).await.unwrap();
    // Connections are accepted in their order: after this answer, the early one has been accepted.
    ask(&path, DOMAIN, true).await;
    server.replace(Arc::new(|_| Box::pin(async { Ok("<new/>".to_owned()) })));
    assert_eq!(ask(&path, DOMAIN, true).await, "<new/>");
    early.write_all(end.as_bytes()).await.unwrap();
    let mut answer = String::new();
    early.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "<domain><name>b</name></domain>\n");
}

#[tokio::test]
async fn refusal_has_its_reason_only_for_a_hook_that_announces_it() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, path) = server(&directory);
    let refused = DOMAIN.replace("<name>a", "<name>refuse");
    assert_eq!(
        ask(&path, &refused, false).await,
        "",
        "KubeVirt's hook fails"
    );
    let answer = ask(&path, &announced(&refused), true).await;
    let reason = read_refusal(&answer);
    assert_eq!(reason, Some("hook a may not change /domain/memory"));
}

#[tokio::test]
async fn oversized_domain_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, path) = server(&directory);
    let huge = format!("<domain>{}", " ".repeat(MAX_BYTES));
    let mut connection = UnixStream::connect(&path).await.unwrap();
    // The server may close the connection before everything is written.
    let _ = connection.write_all(huge.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer).await;
    assert_eq!(answer, b"");
}

#[tokio::test]
async fn idle_clients_lock_no_hook_out() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, path) = server(&directory);
    let mut idle = Vec::new();
    for index in 0..100 {
        let mut connection = UnixStream::connect(&path).await.unwrap();
        if index % 2 == 0 {
            connection.write_all(b"<domain>").await.unwrap();
        }
        idle.push(connection);
    }
    let answer = tokio::time::timeout(Duration::from_secs(10), ask(&path, DOMAIN, false));
    assert_eq!(answer.await.unwrap(), "<domain><name>b</name></domain>\n");
}

/// An attempt of which the hooks are being called is not given up for others.
#[tokio::test]
async fn clients_do_not_end_an_answer_that_is_being_made() {
    let directory = tempfile::tempdir().unwrap();
    let (server, path) = server(&directory);
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    let once = std::sync::Mutex::new(Some((begun, finished)));
    server.replace(Arc::new(move |_| {
        let (begun, finished) = once.lock().unwrap().take().unwrap();
        Box::pin(async move {
            begun.send(()).unwrap();
            finished.await.unwrap();
            Ok("<made/>".to_owned())
        })
    }));
    let asked = tokio::spawn({
        let path = path.clone();
        async move { ask(&path, DOMAIN, false).await }
    });
    has_begun.await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(UnixStream::connect(&path).await.unwrap());
    }
    // The first of them is closed, so that the others have been accepted.
    assert_eq!(idle[0].read(&mut [0]).await.unwrap(), 0);
    finish.send(()).unwrap();
    assert_eq!(asked.await.unwrap(), "<made/>");
}

#[test]
fn document_ends_with_its_root_element() {
    let xml = b"<?virt-hook reads-refusals?><domain><metadata><x:domain xmlns:x='y'></x:domain><domain></domain>\
            </metadata></domain>\n";
    assert!(is_complete_domain(xml));
    let inner = xml.windows(END_TAG.len()).position(|part| part == END_TAG);
    assert!(!is_complete_domain(
        &xml[..inner.unwrap_or(0) + END_TAG.len()]
    ));
    assert!(!is_complete_domain(b"") && !is_complete_domain(b"<domain"));
}

#[test]
fn link_replaces_an_existing_hook() {
    let directory = tempfile::tempdir().unwrap();
    let (hook, client) = (
        directory.path().join("qemu"),
        directory.path().join("client"),
    );
    assert!(matches!(
        install_at(&hook, &client),
        Err(HookLinkError::MissingClient(_))
    ));
    std::fs::write(&client, "").unwrap();
    std::fs::write(&hook, "KubeVirt's script").unwrap();
    for _ in 0..2 {
        install_at(&hook, &client).unwrap();
    }
    assert_eq!(std::fs::read_link(&hook).unwrap(), client);
    let nowhere = directory.path().join("none/qemu");
    let error = install_at(&nowhere, &client).unwrap_err().to_string();
    assert!(error.contains("none/qemu"), "{error}");
}
