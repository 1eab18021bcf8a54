//! SSH keys and passwords in a running guest.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tests::pod::User;
use tests::scenario::{BOOT, Scene, Stage};
use tests::vmi::Vmi;

const SECRETS: &str = "/run/kubevirt-private/secret";
const FIRST: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirst one@example";
const SECOND: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAISecond two@example";
const PASSWORD: &str = "correct: horse";

/// A secret as the kubelet mounts it, and as it swaps it later.
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
    Vmi::new("credentials", User::Nonroot).edit(|vmi| {
        let secret = |name: &str| json!({ "secret": { "secretName": name } });
        vmi["spec"]["accessCredentials"] = json!([
            { "sshPublicKey": { "source": secret("keys"),
                "propagationMethod": { "qemuGuestAgent": { "users": ["root"] } } } },
            { "userPassword": { "source": secret("passwords"),
                "propagationMethod": { "qemuGuestAgent": {} } } },
        ]);
    })
}

async fn eventually(scene: &Scene, vmi: &Vmi, what: &str, script: &str) -> Result<()> {
    let holds = async || {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let done = scene.commands.exec(vmi, "sh", &["-c", script]).await;
        done.is_ok_and(|done| done.exit_code == 0).then_some(())
    };
    tests::until(what, BOOT, holds).await
}

/// Whether virt-handler was told that everything is in the guest, in the last event that says so.
async fn told_of_success(scene: &Scene) -> Result<()> {
    let told = async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let events = scene.handler.events();
        let last = events
            .iter()
            .rev()
            .map(|event| &event.metadata()["AccessCredential"]);
        let last = last
            .filter(|known| !known.is_null())
            .map(|known| known["Succeeded"].clone())
            .next();
        (last == Some(json!(true))).then_some(())
    };
    tests::until("news of the access credentials", BOOT, told).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_and_passwords_reach_the_guest_and_follow_their_secrets() -> Result<()> {
    let vmi = vmi();
    let mut stage = Stage::set(User::Nonroot)?;
    // All that libvirt can tell, so that secrets would show.
    stage.pod.set_env("LIBVIRT_DEBUG_LOGS", "1");
    let keys = stage.pod.path(SECRETS).join("keys-access-cred");
    put_secret(&keys, "..first", "key", FIRST)?;
    let passwords = stage.pod.path(SECRETS).join("passwords-access-cred");
    put_secret(&passwords, "..first", "root", &format!("{PASSWORD}\n"))?;
    let scene = stage.start(&vmi, &[]).await?;
    scene.boot_to_ready(&vmi).await?;
    let file = "/root/.ssh/authorized_keys";
    let has_key = |key: &str| format!("[ \"$(cat {file})\" = '{key}' ]");
    eventually(&scene, &vmi, "the first key", &has_key(FIRST)).await?;
    let has_password = format!(
        "hash=$(sed -n 's/^root:\\([^:]*\\):.*/\\1/p' /etc/shadow); salt=$(echo \"$hash\" | cut -d'$' -f3)
        [ \"$(mkpasswd -m sha512 -S \"$salt\" '{PASSWORD}')\" = \"$hash\" ]"
    );
    eventually(&scene, &vmi, "the password", &has_password).await?;
    told_of_success(&scene).await?;
    put_secret(&keys, "..second", "key", SECOND)?;
    eventually(&scene, &vmi, "the second key", &has_key(SECOND)).await?;
    let log = scene.pod.log();
    assert!(log.contains("qemuProcessStart"), "libvirt tells all it can");
    // "correct: horse" in base64, as the agent gets it.
    for secret in [PASSWORD, "Y29ycmVjdDogaG9yc2U=", "AAAAISecond"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    scene.close(&vmi).await
}
