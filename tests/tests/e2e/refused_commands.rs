//! VMIs that are refused, and RPCs that this launcher does not know yet.

use anyhow::Result;
use proto::cmd::v1 as cmd;
use serde_json::json;
use tests::fixture::LauncherFixture;
use tests::pod::User;
use tests::vmi_builder::Vmi;
use tonic::{Code, Status};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_vmi_is_refused_with_a_reason_and_harms_nothing() -> Result<()> {
    let user = User::Nonroot;
    let good = Vmi::new("good", user).edit(|vmi| {
        vmi["spec"]["fieldOfALaterKubeVirt"] = json!({ "deeply": ["unknown", 1, null] });
        vmi["status"]["alsoNew"] = json!(true);
    });
    let fixture = LauncherFixture::start(user, &good).await?;
    let no_object = "No valid vmi object present in command server request";
    for bytes in [
        &b"this is no JSON"[..],
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsupported_rpc_answers_with_an_error() -> Result<()> {
    let vmi = Vmi::new("rpcs", User::Nonroot);
    let fixture = LauncherFixture::start(User::Nonroot, &vmi).await?;
    let mut client = fixture.commands.raw.clone();
    let of_vmi = || cmd::VmiRequest {
        vmi: Some(cmd::Vmi {
            vmi_json: vmi.json(),
        }),
        options: Some(vmi.options()),
    };
    let same = || {
        Some(cmd::Vmi {
            vmi_json: vmi.json(),
        })
    };

    /// Calls an RPC whose answer is a Response, or contains one.
    macro_rules! refused {
        ($rpc:ident, $request:expr) => {
            check(
                stringify!($rpc),
                client
                    .$rpc($request)
                    .await
                    .map(|answer| Some(answer.into_inner())),
            )
        };
        ($rpc:ident, $request:expr, inner) => {
            check(
                stringify!($rpc),
                client
                    .$rpc($request)
                    .await
                    .map(|answer| answer.into_inner().response),
            )
        };
    }
    refused!(
        migrate_virtual_machine,
        cmd::MigrationRequest {
            vmi: same(),
            options: b"{}".to_vec()
        }
    );
    refused!(cancel_virtual_machine_migration, of_vmi());
    refused!(
        backup_virtual_machine,
        cmd::BackupRequest {
            vmi: same(),
            options: b"{}".to_vec()
        }
    );
    refused!(
        redefine_checkpoint,
        cmd::RedefineCheckpointRequest {
            vmi: same(),
            checkpoint: b"{}".to_vec()
        },
        inner
    );

    // Its feature gate is off: a gRPC error with the reason.
    match client.get_vm_stats(cmd::VmStatsRequest::default()).await {
        Ok(answer) => check("get_vm_stats", Ok(answer.into_inner().response)),
        Err(status) => assert_eq!(status.code(), Code::Unknown, "{status}"),
    }
    Ok(())
}

fn check(rpc: &str, answer: Result<Option<cmd::Response>, Status>) {
    let response = answer.unwrap_or_else(|status| panic!("{rpc} is a gRPC error: {status}"));
    let response = response.unwrap_or_else(|| panic!("{rpc} has no Response"));
    assert!(!response.success, "{rpc} claims success");
    assert!(
        response
            .message
            .contains("not supported by this launcher yet"),
        "{rpc}: {}",
        response.message
    );
}
