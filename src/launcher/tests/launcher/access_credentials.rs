//! Access credentials that go through the guest's agent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubevirt_api::vmi::Vmi;
use libvirt::fake::FakeDaemon;
use serde_json::{Value, json};
use virt_launcher::manager::Command;

use crate::scripted_agent::{ScriptedAgent, eventually};
use crate::test_launcher::{DOMAIN, TestLauncher, sync_of, vmi_json};

const KEY: &str = "ssh-rsa AAAA one@example";
const FILE: &str = "/home/fedora/.ssh/authorized_keys";

/// A guest with one user and an agent.
#[derive(Default)]
struct Guest {
    /// An agent before 5.2 has no command for SSH keys.
    is_old: bool,
    state: Mutex<GuestState>,
}

#[derive(Default)]
struct GuestState {
    files: BTreeMap<String, String>,
    programs: Vec<String>,
    open: String,
    keys: Vec<String>,
    passwords: Vec<String>,
}

impl Guest {
    fn answer(&self, json: &str) -> libvirt::Result<String> {
        let command: Value = serde_json::from_str(json).unwrap();
        let arguments = &command["arguments"];
        let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        let mut state = self.state.lock().unwrap();
        let answer = match command["execute"].as_str().unwrap() {
            "guest-ping" => json!({}),
            "guest-ssh-add-authorized-keys" if !self.is_old => {
                state
                    .keys
                    .push(format!("{} {}", text("username"), arguments["keys"]));
                json!({})
            }
            "guest-set-user-password" => {
                let password = STANDARD.decode(text("password")).unwrap();
                let password = String::from_utf8(password).unwrap();
                state
                    .passwords
                    .push(format!("{} {password}", text("username")));
                json!({})
            }
            "guest-exec" => {
                let program = text("path");
                state
                    .programs
                    .push(format!("{program} {}", arguments["arg"]));
                json!({ "pid": i32::from(program == "getent") })
            }
            "guest-exec-status" if arguments["pid"] == 1 => {
                let entry = STANDARD.encode("fedora:x:1000:1000::/home/fedora:/bin/sh\n");
                json!({ "exited": true, "exitcode": 0, "out-data": entry })
            }
            "guest-exec-status" => json!({ "exited": true, "exitcode": 0 }),
            "guest-file-open"
                if arguments["mode"] == "r" && !state.files.contains_key(&text("path")) =>
            {
                return Err(FakeDaemon::error(
                    1,
                    10,
                    "failed to open file: No such file or directory",
                ));
            }
            "guest-file-open" => {
                state.open = text("path");
                json!(7)
            }
            "guest-file-read" => {
                let content = state.files[&state.open].clone();
                json!({ "buf-b64": STANDARD.encode(content), "count": 1, "eof": true })
            }
            "guest-file-write" => {
                let content = STANDARD.decode(text("buf-b64")).unwrap();
                let open = state.open.clone();
                state
                    .files
                    .insert(open, String::from_utf8(content).unwrap());
                json!({ "count": 1 })
            }
            "guest-file-close" => json!({}),
            unknown => {
                return Err(FakeDaemon::error(
                    1,
                    10,
                    &format!("command {unknown} not found"),
                ));
            }
        };
        Ok(json!({ "return": answer }).to_string())
    }
}

fn vmi() -> Vmi {
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

fn put_secrets(launcher: &TestLauncher) {
    for (directory, name, content) in [
        ("keys-access-cred", "key", KEY),
        ("passwords-access-cred", "fedora", "s3cret\n"),
    ] {
        let directory = launcher.paths.private.join("secret").join(directory);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(name), content).unwrap();
    }
}

/// A VM whose credentials were set before its agent connected.
async fn started(guest: &Arc<Guest>) -> (TestLauncher, Vec<String>) {
    let launcher = TestLauncher::new().await;
    put_secrets(&launcher);
    launcher
        .manager
        .run(Command::sync(sync_of(vmi())))
        .await
        .unwrap();
    launcher
        .notifications_until("credentials=Guest agent is offline")
        .await;
    let guest = Arc::clone(guest);
    let agent = move |json: &str| guest.answer(json);
    launcher.fake.set_agent(DOMAIN, Some(Arc::new(agent)));
    let notifications = launcher.notifications_until("credentials=set").await;
    (launcher, notifications)
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_set_once_the_agent_connects() {
    let guest = Arc::new(Guest::default());
    let (_launcher, notifications) = started(&guest).await;
    let state = guest.state.lock().unwrap();
    assert_eq!(state.keys, [format!("fedora [\"{KEY}\"]")]);
    assert_eq!(state.passwords, ["fedora s3cret"]);
    assert!(
        !notifications.iter().any(|line| line.contains("EVENT")),
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn old_agent_gets_a_file_and_the_owner_a_warning() {
    let guest = Arc::new(Guest {
        is_old: true,
        ..Guest::default()
    });
    let (launcher, _) = started(&guest).await;
    launcher
        .notifications_until("EVENT AccessCredentialsSyncSuccess")
        .await;
    let state = guest.state.lock().unwrap();
    assert_eq!(state.files[FILE], KEY);
    let owned = format!(r#"chown ["1000:1000","{FILE}"]"#);
    let closed = format!(r#"chmod ["600","{FILE}"]"#);
    assert_eq!(state.programs.last_chunk(), Some(&[owned, closed]));
}

#[tokio::test(flavor = "multi_thread")]
async fn long_agent_answers_are_truncated_in_events() {
    let (launcher, agent) = (TestLauncher::new().await, ScriptedAgent::default());
    put_secrets(&launcher);
    agent.answer("guest-ping", json!({}));
    // Too large to be parsed.
    let flood = "\u{1b}x".repeat(3 << 19);
    agent.answer("guest-set-user-password", json!(flood));
    // libvirt quotes the agent's reason.
    let refusal = FakeDaemon::error(1, 10, &flood);
    agent.fail("guest-ssh-add-authorized-keys", Some(refusal.clone()));
    agent.fail("guest-exec", Some(refusal));
    launcher
        .manager
        .run(Command::sync(sync_of(vmi())))
        .await
        .unwrap();
    agent.connect(&launcher);
    put_secrets(&launcher);
    let notifications = launcher
        .notifications_until("credentials=setting the SSH")
        .await;
    let notification = notifications.last().unwrap();
    assert!(notification.len() < 1024, "{} bytes", notification.len());
    assert!(!notification.contains('\u{1b}'), "{notification}");
    agent.answer("guest-ssh-add-authorized-keys", json!({}));
    agent.fail("guest-ssh-add-authorized-keys", None);
    put_secrets(&launcher);
    launcher
        .notifications_until("credentials=setting the password of user fedora: guest-set")
        .await;
    agent.answer("guest-set-user-password", json!({}));
    put_secrets(&launcher);
    let is_set = |line: &String| line.contains("credentials=set") && !line.contains("setting");
    eventually("the credentials", async || {
        launcher.notifications(0).await.iter().any(is_set)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_secret_fails_the_start() {
    let launcher = TestLauncher::new().await;
    let error = launcher
        .manager
        .run(Command::sync(sync_of(vmi())))
        .await
        .unwrap_err();
    let message = error.message();
    assert!(
        message.starts_with("access credentials: reading /")
            && message.contains("secret/keys-access-cred"),
        "{message}"
    );
    put_secrets(&launcher);
    launcher
        .manager
        .run(Command::sync(sync_of(vmi())))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_synchronization_is_not_notified() {
    let guest = Arc::new(Guest::default());
    let (launcher, before) = started(&guest).await;
    let set = |guest: &Guest| guest.state.lock().unwrap().passwords.len();
    for _ in 0..2 {
        let already = set(&guest);
        // The kubelet writes the same secret again.
        put_secrets(&launcher);
        eventually("the credentials", async || set(&guest) > already).await;
    }
    assert_eq!(launcher.notifications(0).await, before);
}
