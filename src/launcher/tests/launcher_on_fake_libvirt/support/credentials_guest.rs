//! A simulated guest whose agent sets access credentials.

use std::collections::BTreeMap;
use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libvirt::fake::FakeDaemon;
use libvirt::{code, origin};
use serde_json::{Value, json};

/// A guest with the user `fedora`, whose agent sets credentials.
#[derive(Default)]
pub(crate) struct CredentialsGuest {
    /// The agent is older than 5.2, and has no commands for SSH keys.
    pub(crate) lacks_ssh_commands: bool,
    pub(crate) state: Mutex<CredentialsGuestState>,
}

#[derive(Default)]
pub(crate) struct CredentialsGuestState {
    /// The content of each file.
    pub(crate) files: BTreeMap<String, String>,
    /// The programs that ran, with their arguments.
    pub(crate) programs: Vec<String>,
    /// The path of the open file.
    open_file: String,
    /// `USER KEYS` of each request for SSH keys.
    pub(crate) keys: Vec<String>,
    /// `USER PASSWORD` of each request for a password.
    pub(crate) passwords: Vec<String>,
}

impl CredentialsGuest {
    /// The agent's response to a command.
    pub(crate) fn answer(&self, json: &str) -> libvirt::Result<String> {
        let command: Value = serde_json::from_str(json).unwrap();
        let arguments = &command["arguments"];
        let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        let mut state = self.state.lock().unwrap();
        let answer = match command["execute"].as_str().unwrap() {
            "guest-ping" => json!({}),
            "guest-ssh-add-authorized-keys" if !self.lacks_ssh_commands => {
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
                    code::INTERNAL_ERROR,
                    origin::QEMU,
                    "failed to open file: No such file or directory",
                ));
            }
            "guest-file-open" => {
                state.open_file = text("path");
                json!(7)
            }
            "guest-file-read" => {
                let content = state.files[&state.open_file].clone();
                json!({ "buf-b64": STANDARD.encode(content), "count": 1, "eof": true })
            }
            "guest-file-write" => {
                let content = STANDARD.decode(text("buf-b64")).unwrap();
                let path = state.open_file.clone();
                state
                    .files
                    .insert(path, String::from_utf8(content).unwrap());
                json!({ "count": 1 })
            }
            "guest-file-close" => json!({}),
            unknown => {
                return Err(FakeDaemon::error(
                    code::INTERNAL_ERROR,
                    origin::QEMU,
                    &format!("command {unknown} not found"),
                ));
            }
        };
        Ok(json!({ "return": answer }).to_string())
    }
}
