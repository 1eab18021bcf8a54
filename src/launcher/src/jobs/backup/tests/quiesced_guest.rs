//! Freezing the guest while a backup begins.

use super::*;

#[tokio::test]
async fn guest_that_cannot_be_frozen_is_backed_up_without_a_freeze() {
    let vm = RunningVm::new().await;
    let quiesced = vm.request("bk1", Mode::Push, |fields| fields.skip_quiesce = false);
    vm.jobs.start_backup(quiesced).await.unwrap();
    let record = vm.last_record().await;
    assert_eq!(record.quiesce_status, "Failed");
    assert!(record.completed && !record.failed);
}

/// The guest's agent, which counts thaws.
#[derive(Clone)]
struct FreezingAgent {
    frozen: Arc<AtomicBool>,
    thaws: Arc<AtomicUsize>,
}

impl FreezingAgent {
    /// Connects the agent of a guest that is `frozen` or not. Its freeze command has an effect only if `can_freeze`.
    fn connect(vm: &RunningVm<Records>, frozen: bool, can_freeze: bool) -> FreezingAgent {
        let agent = FreezingAgent {
            frozen: Arc::new(AtomicBool::new(frozen)),
            thaws: Arc::default(),
        };
        let FreezingAgent { frozen, thaws } = agent.clone();
        let answer = move |command: &str| {
            let status = match frozen.load(Ordering::SeqCst) {
                true => r#"{"return":"frozen"}"#,
                false => r#"{"return":"thawed"}"#,
            };
            if command.contains("guest-fsfreeze-freeze") {
                frozen.store(can_freeze, Ordering::SeqCst);
            } else if command.contains("guest-fsfreeze-thaw") {
                frozen.store(false, Ordering::SeqCst);
                thaws.fetch_add(1, Ordering::SeqCst);
            } else {
                return Ok(status.to_owned());
            }
            Ok(r#"{"return":1}"#.to_owned())
        };
        vm.fake.set_agent(DOMAIN, Some(Arc::new(answer)));
        agent
    }

    async fn back_up(&self, vm: &RunningVm<Records>) -> Backup {
        let quiesced = vm.request("bk1", Mode::Push, |fields| fields.skip_quiesce = false);
        vm.jobs.start_backup(quiesced).await.unwrap();
        let record = vm.last_record().await;
        assert!(record.completed && !record.failed, "{record:?}");
        record
    }
}

#[tokio::test]
async fn guest_is_frozen_while_the_backup_begins() {
    let vm = RunningVm::new().await;
    let agent = FreezingAgent::connect(&vm, false, true);
    assert_eq!(agent.back_up(&vm).await.quiesce_status, "Succeeded");
    assert!(!agent.frozen.load(Ordering::SeqCst));
    assert_eq!(agent.thaws.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn quiesce_of_a_guest_that_was_thawed_before_the_backup_began_is_failed() {
    let vm = RunningVm::new().await;
    let record = FreezingAgent::connect(&vm, false, false).back_up(&vm).await;
    assert_eq!(record.quiesce_status, "Failed");
    assert!(
        record.backup_msg.contains("was thawed before"),
        "{record:?}"
    );
}

/// The agent of a guest that runs from memory answers so.
#[tokio::test]
async fn quiesce_of_a_guest_without_a_file_system_to_freeze_succeeds() {
    let vm = RunningVm::new().await;
    let answer = |command: &str| {
        let answer = match command.contains("guest-fsfreeze-freeze") {
            true => r#"{"return":0}"#,
            false => r#"{"return":"thawed"}"#,
        };
        Ok(answer.to_owned())
    };
    vm.fake.set_agent(DOMAIN, Some(Arc::new(answer)));
    let quiesced = vm.request("bk1", Mode::Push, |fields| fields.skip_quiesce = false);
    vm.jobs.start_backup(quiesced).await.unwrap();
    assert_eq!(vm.last_record().await.quiesce_status, "Succeeded");
}

#[tokio::test]
async fn guest_that_another_client_froze_stays_frozen() {
    let vm = RunningVm::new().await;
    let agent = FreezingAgent::connect(&vm, true, true);
    assert_eq!(agent.back_up(&vm).await.quiesce_status, "Succeeded");
    assert!(agent.frozen.load(Ordering::SeqCst));
}
