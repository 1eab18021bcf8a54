//! Invalid VMIs, which a Sync refuses.

use anyhow::Result;
use serde_json::json;
use tests::launcher_fixture::LauncherFixture;
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_vmi_is_refused_with_a_reason_and_harms_nothing() -> Result<()> {
    let user = LauncherUser::Nonroot;
    let good = Vmi::new("good", user).edit(|vmi| {
        vmi["spec"]["fieldOfALaterKubeVirt"] = json!({ "deeply": ["unknown", 1, null] });
        vmi["status"]["alsoNew"] = json!(true);
    });
    let fixture = LauncherFixture::start(user, &good).await?;
    let no_object = "No valid vmi object present in command server request";
    for bytes in [
        &b"this is not JSON"[..],
        b"",
        b"[1, 2]",
        b"{\"spec\": 7}",
        &[0xff, 0xfe],
    ] {
        let answer = fixture.commands.sync_bytes(bytes).await?;
        assert!(
            !answer.success && answer.message.contains(no_object),
            "{bytes:?}: {answer:?}"
        );
    }

    let bus = Vmi::new("good", user)
        .empty_disk("disk", "16Mi")
        .edit(|vmi| {
            vmi["spec"]["domain"]["devices"]["disks"][0]["disk"]["bus"] = json!("floppy-tape");
        });
    let answer = fixture.commands.sync(&bus).await?;
    assert!(
        !answer.success && answer.message.contains("bus"),
        "{answer:?}"
    );

    let missing = Vmi::new("good", user)
        .empty_disk("orphan", "16Mi")
        .edit(|vmi| vmi["spec"]["volumes"] = json!([]));
    let answer = fixture.commands.sync(&missing).await?;
    assert!(
        !answer.success && answer.message.contains("orphan"),
        "{answer:?}"
    );

    assert!(
        fixture.handler.states().is_empty(),
        "{}",
        fixture.handler.history()
    );
    fixture.boot(&good).await?;
    fixture.end_vm(&good).await
}
