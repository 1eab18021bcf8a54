//! SSH keys and passwords in a running guest.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tests::launcher_fixture::{BOOT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

const SECRETS_DIRECTORY: &str = "/run/kubevirt-private/secret";
const FIRST_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirst one@example";
const SECOND_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAISecond two@example";
const PASSWORD: &str = "correct: horse";

/// Writes a secret as the kubelet does: into a new directory, which a link then points to.
fn put_secret(mount: &Path, version: &str, name: &str, content: &str) -> Result<()> {
    fs::create_dir_all(mount.join(version))?;
    fs::write(mount.join(version).join(name), content)?;
    symlink(version, mount.join("..data_tmp"))?;
    fs::rename(mount.join("..data_tmp"), mount.join("..data"))?;
    let link = mount.join(name);
    if !link.is_symlink() {
        symlink(Path::new("..data").join(name), link)?;
    }
    Ok(())
}

fn vmi() -> Vmi {
    Vmi::new("credentials", LauncherUser::Nonroot).edit(|vmi| {
        let secret = |name: &str| json!({ "secret": { "secretName": name } });
        vmi["spec"]["accessCredentials"] = json!([
            { "sshPublicKey": { "source": secret("keys"),
                "propagationMethod": { "qemuGuestAgent": { "users": ["root"] } } } },
            { "userPassword": { "source": secret("passwords"),
                "propagationMethod": { "qemuGuestAgent": {} } } },
        ]);
    })
}

/// Waits until a shell script in the guest succeeds.
async fn wait_for_script(
    fixture: &LauncherFixture,
    vmi: &Vmi,
    what: &str,
    script: &str,
) -> Result<()> {
    let succeeds = async || {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let answer = fixture.commands.exec(vmi, "sh", &["-c", script]).await;
        answer
            .is_ok_and(|answer| answer.exit_code == 0)
            .then_some(())
    };
    tests::wait_until(what, BOOT_TIMEOUT, succeeds).await
}

/// Waits for the notification that the credentials are in the guest.
async fn wait_for_sync_success(fixture: &LauncherFixture) -> Result<()> {
    let is_reported = async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let events = fixture.handler.events();
        let last = events
            .iter()
            .rev()
            .map(|event| &event.metadata()["AccessCredential"]);
        let last = last
            .filter(|record| !record.is_null())
            .map(|record| record["Succeeded"].clone())
            .next();
        (last == Some(json!(true))).then_some(())
    };
    tests::wait_until("news of the access credentials", BOOT_TIMEOUT, is_reported).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_and_passwords_reach_the_guest_and_follow_their_secrets() -> Result<()> {
    let vmi = vmi();
    let mut prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    // With libvirt's most verbose log, a leaked secret would be found.
    prepared.pod.set_env("LIBVIRT_DEBUG_LOGS", "1");
    let keys = prepared
        .pod
        .path(SECRETS_DIRECTORY)
        .join("keys-access-cred");
    put_secret(&keys, "..first", "key", FIRST_KEY)?;
    let passwords = prepared
        .pod
        .path(SECRETS_DIRECTORY)
        .join("passwords-access-cred");
    put_secret(&passwords, "..first", "root", &format!("{PASSWORD}\n"))?;
    let fixture = prepared.start(&vmi, &[]).await?;
    fixture.boot_and_read_reports(&vmi).await?;
    let file = "/root/.ssh/authorized_keys";
    let has_key = |key: &str| format!("[ \"$(cat {file})\" = '{key}' ]");
    wait_for_script(&fixture, &vmi, "the first key", &has_key(FIRST_KEY)).await?;
    let has_password = format!(
        "hash=$(sed -n 's/^root:\\([^:]*\\):.*/\\1/p' /etc/shadow); salt=$(echo \"$hash\" | cut -d'$' -f3)
        [ \"$(mkpasswd -m sha512 -S \"$salt\" '{PASSWORD}')\" = \"$hash\" ]"
    );
    wait_for_script(&fixture, &vmi, "the password", &has_password).await?;
    wait_for_sync_success(&fixture).await?;
    put_secret(&keys, "..second", "key", SECOND_KEY)?;
    wait_for_script(&fixture, &vmi, "the second key", &has_key(SECOND_KEY)).await?;
    let log = fixture.pod.log();
    assert!(log.contains("qemuProcessStart"), "libvirt tells all it can");
    // The second text is "correct: horse" in base64, as the agent receives it.
    for secret in [PASSWORD, "Y29ycmVjdDogaG9yc2U=", "AAAAISecond"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    fixture.end_vm(&vmi).await
}
