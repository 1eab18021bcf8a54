//! Access credentials that the guest agent sets.

use std::sync::Arc;
use std::time::Duration;

use kubevirt_api::vmi::Vmi;
use libvirt::fake::{Call, FakeDaemon};
use libvirt::{code, origin};
use serde_json::json;
use tokio::time::sleep;
use virt_launcher::manager::Command;

use crate::support::credentials_guest::CredentialsGuest;
use crate::support::scripted_guest_agent::ScriptedAgent;
use crate::support::test_launcher::{DOMAIN, TestLauncher, sync_request_for, vmi_json, wait_for};

const KEY: &str = "ssh-rsa AAAA one@example";
const AUTHORIZED_KEYS: &str = "/home/fedora/.ssh/authorized_keys";

fn vmi_with_credentials() -> Vmi {
    let mut vmi = vmi_json();
    let secret = |name: &str| json!({ "secret": { "secretName": name } });
    vmi["spec"]["accessCredentials"] = json!([
        { "sshPublicKey": { "source": secret("keys"),
            "propagationMethod": { "qemuGuestAgent": { "users": ["fedora"] } } } },
        { "userPassword": { "source": secret("passwords"),
            "propagationMethod": { "qemuGuestAgent": {} } } },
    ]);
    Vmi::from_json(vmi.to_string().as_bytes()).unwrap()
}

/// Writes the secrets, as the kubelet does.
fn write_secrets(launcher: &TestLauncher) {
    for (directory, name, content) in [
        ("keys-access-cred", "key", KEY),
        ("passwords-access-cred", "fedora", "s3cret\n"),
    ] {
        let directory = launcher.paths.private.join("secret").join(directory);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(name), content).unwrap();
    }
}

/// A VM whose agent connects after the start, and sets the credentials.
async fn start_with_credentials(guest: &Arc<CredentialsGuest>) -> (TestLauncher, Vec<String>) {
    let launcher = TestLauncher::new().await;
    write_secrets(&launcher);
    launcher
        .manager
        .run(Command::sync(sync_request_for(vmi_with_credentials())))
        .await
        .unwrap();
    wait_for("the first attempt", async || {
        launcher.fake.count(Call::Agent) > 0
    })
    .await;
    let guest = Arc::clone(guest);
    let agent = move |json: &str| guest.answer(json);
    launcher.fake.set_agent(DOMAIN, Some(Arc::new(agent)));
    let notifications = launcher.notifications_until("credentials=set").await;
    (launcher, notifications)
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_set_once_the_agent_connects() {
    let guest = Arc::new(CredentialsGuest::default());
    let (_launcher, notifications) = start_with_credentials(&guest).await;
    let state = guest.state.lock().unwrap();
    assert_eq!(state.keys, [format!("fedora [\"{KEY}\"]")]);
    assert_eq!(state.passwords, ["fedora s3cret"]);
    // While the guest boots, an agent that does not answer is no failure.
    assert!(
        !notifications
            .iter()
            .any(|line| line.contains("EVENT") || line.contains("offline")),
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_that_has_not_answered_is_reported_after_15_s_and_tried_as_soon_as_it_connects() {
    let launcher = TestLauncher::new().await;
    write_secrets(&launcher);
    launcher
        .manager
        .run(Command::sync(sync_request_for(vmi_with_credentials())))
        .await
        .unwrap();
    sleep(Duration::from_secs(13)).await;
    let notifications = launcher.notifications(0).await;
    assert!(!notifications.iter().any(|line| line.contains("offline")));
    launcher
        .notifications_until("credentials=Guest agent is offline")
        .await;
    // After a pause, the next attempt would come later than this wait takes.
    let guest = Arc::new(CredentialsGuest::default());
    let agent = move |json: &str| guest.answer(json);
    launcher.fake.set_agent(DOMAIN, Some(Arc::new(agent)));
    launcher.notifications_until("credentials=set").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_agent_gets_a_file_and_the_owner_a_warning() {
    let guest = Arc::new(CredentialsGuest {
        lacks_ssh_commands: true,
        ..CredentialsGuest::default()
    });
    let (launcher, _) = start_with_credentials(&guest).await;
    launcher
        .notifications_until("EVENT AccessCredentialsSyncSuccess")
        .await;
    let state = guest.state.lock().unwrap();
    assert_eq!(state.files[AUTHORIZED_KEYS], KEY);
    let chown = format!(r#"chown ["1000:1000","{AUTHORIZED_KEYS}"]"#);
    let chmod = format!(r#"chmod ["600","{AUTHORIZED_KEYS}"]"#);
    assert_eq!(state.programs.last_chunk(), Some(&[chown, chmod]));
}

#[tokio::test(flavor = "multi_thread")]
async fn long_agent_answers_are_truncated_in_events() {
    let (launcher, agent) = (TestLauncher::new().await, ScriptedAgent::default());
    write_secrets(&launcher);
    agent.answer("guest-ping", json!({}));
    // Too large to be parsed.
    let large_answer = "\u{1b}x".repeat(3 << 19);
    agent.answer("guest-set-user-password", json!(large_answer));
    // libvirt quotes the agent's reason.
    let error = FakeDaemon::error(code::INTERNAL_ERROR, origin::QEMU, &large_answer);
    agent.fail("guest-ssh-add-authorized-keys", Some(error.clone()));
    agent.fail("guest-exec", Some(error));
    launcher
        .manager
        .run(Command::sync(sync_request_for(vmi_with_credentials())))
        .await
        .unwrap();
    agent.connect(&launcher);
    write_secrets(&launcher);
    let notifications = launcher
        .notifications_until("credentials=setting the SSH")
        .await;
    let notification = notifications.last().unwrap();
    assert!(notification.len() < 1024, "{} bytes", notification.len());
    assert!(!notification.contains('\u{1b}'), "{notification}");
    agent.answer("guest-ssh-add-authorized-keys", json!({}));
    agent.fail("guest-ssh-add-authorized-keys", None);
    write_secrets(&launcher);
    launcher
        .notifications_until("credentials=setting the password of user fedora: guest-set")
        .await;
    agent.answer("guest-set-user-password", json!({}));
    write_secrets(&launcher);
    let is_set = |line: &String| line.contains("credentials=set") && !line.contains("setting");
    wait_for("the credentials", async || {
        launcher.notifications(0).await.iter().any(is_set)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_secret_fails_the_start() {
    let launcher = TestLauncher::new().await;
    let error = launcher
        .manager
        .run(Command::sync(sync_request_for(vmi_with_credentials())))
        .await
        .unwrap_err();
    let message = error.message();
    assert!(
        message.starts_with("access credentials: reading /")
            && message.contains("secret/keys-access-cred"),
        "{message}"
    );
    write_secrets(&launcher);
    launcher
        .manager
        .run(Command::sync(sync_request_for(vmi_with_credentials())))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_synchronization_is_not_notified() {
    let guest = Arc::new(CredentialsGuest::default());
    let (launcher, notifications) = start_with_credentials(&guest).await;
    let password_count = |guest: &CredentialsGuest| guest.state.lock().unwrap().passwords.len();
    for _ in 0..2 {
        let before = password_count(&guest);
        // As when the kubelet writes the same secret again.
        write_secrets(&launcher);
        wait_for("the credentials", async || password_count(&guest) > before).await;
    }
    assert_eq!(launcher.notifications(0).await, notifications);
}
