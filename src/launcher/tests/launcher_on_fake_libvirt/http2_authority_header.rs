//! Requests whose `:authority` is not a host name.

use std::time::Duration;

use tests::raw_http2_client::{AUTHORITIES, DATA, HEADERS, frames_of_two_answers};

use crate::support::test_launcher::TestLauncher;

#[tokio::test(flavor = "multi_thread")]
async fn any_authority_is_accepted() {
    let launcher = TestLauncher::new().await;
    let socket = launcher.paths.ready_socket();
    for authority in AUTHORITIES {
        let answers = frames_of_two_answers(&socket, "/kubevirt.cmd.v1.Cmd/Ping", authority);
        let answers = tokio::time::timeout(Duration::from_secs(10), answers).await;
        for answer in answers.unwrap().unwrap() {
            assert_eq!(answer, [HEADERS, DATA, HEADERS], "{authority}");
        }
    }
}
