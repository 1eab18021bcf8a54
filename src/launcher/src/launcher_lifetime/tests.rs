//! Ends of the launcher: by a signal, by virt-handler, by a timer, and after the end of the VM.

use proptest::prelude::*;

use super::*;

const CONFIG: LifetimeConfig = LifetimeConfig {
    qemu_timeout: Duration::from_secs(180),
    grace_period: Duration::from_secs(20),
    standalone: false,
};
const STANDALONE: LifetimeConfig = LifetimeConfig {
    standalone: true,
    ..CONFIG
};

fn after(config: LifetimeConfig, inputs: &[Input]) -> (Lifetime, Vec<Step>) {
    let (mut lifetime, mut last) = Lifetime::begin(config);
    for input in inputs {
        last = lifetime.observe(*input);
    }
    (lifetime, last)
}

const ACTIVE: Input = Input::Phase(Phase::Active);
const DOWN: Input = Input::Phase(Phase::Down);
const GONE: Input = Input::Phase(Phase::Gone);
const SIGNAL: Input = Input::Signal {
    is_guest_here: true,
};
const DEFINED: Input = Input::Phase(Phase::Defined);

fn clean_exit() -> Vec<Step> {
    vec![Step::RunShutdownHooks, Step::Exit(Ending::Clean)]
}

#[test]
fn clean_up_ends_an_unused_target_and_kills_only_a_vm_that_has_not_arrived() {
    let clean_up = |phase, is_guest_here| {
        let (mut lifetime, _) = Lifetime::begin(CONFIG);
        lifetime.observe(Input::Phase(phase));
        lifetime.observe(Input::CleanUpTarget { is_guest_here })
    };
    assert_eq!(
        clean_up(Phase::Absent, false),
        [Step::RunShutdownHooks, Step::Exit(Ending::UnusedTarget)]
    );
    let incoming = clean_up(Phase::Active, false);
    assert!(incoming.contains(&Step::Kill), "{incoming:?}");
    assert_eq!(clean_up(Phase::Active, true), []);
}

#[test]
fn signal_to_a_target_kills_a_vm_that_has_not_arrived() {
    let arriving = Input::Signal {
        is_guest_here: false,
    };
    let (mut lifetime, steps) = after(CONFIG, &[ACTIVE, arriving]);
    assert_eq!(
        steps,
        [
            Step::Kill,
            Step::Arm(Timer::GracePeriod, KILL_RETRY_INTERVAL)
        ],
        "the VM continues on the source"
    );
    assert_eq!(lifetime.observe(DOWN), clean_exit());
    assert_eq!(after(CONFIG, &[arriving]).1, clean_exit());
}

#[test]
fn missing_domain_is_a_failure_after_the_timeout_and_hooks_run() {
    let (_, steps) = after(CONFIG, &[Input::Expired(Timer::DomainDefined)]);
    assert_eq!(
        steps,
        [
            Step::RunShutdownHooks,
            Step::Exit(Ending::NoDomain(CONFIG.qemu_timeout))
        ]
    );
}

#[test]
fn signal_without_a_running_domain_exits_at_once() {
    assert_eq!(after(CONFIG, &[SIGNAL]).1, clean_exit());
    assert_eq!(after(CONFIG, &[DEFINED, SIGNAL]).1, clean_exit());
}

#[test]
fn delete_ends_a_launcher_whose_vm_could_not_start() {
    assert_eq!(
        after(CONFIG, &[Input::DeletedBeforeDefinition]).1,
        clean_exit()
    );
    let defined_meanwhile = [DEFINED, Input::DeletedBeforeDefinition];
    assert_eq!(after(CONFIG, &defined_meanwhile).1, []);
}

#[test]
fn launcher_waits_for_virt_handler_to_delete_an_ended_vm() {
    let (mut lifetime, steps) = after(CONFIG, &[DEFINED, ACTIVE, DOWN]);
    assert_eq!(
        steps,
        [
            Step::RunShutdownHooks,
            Step::Arm(Timer::HandlerDelete, HANDLER_DELETE_TIMEOUT)
        ]
    );
    assert_eq!(lifetime.observe(GONE), clean_exit());
}

#[test]
fn launcher_exits_if_virt_handler_does_not_delete_the_vm_in_time() {
    let (_, steps) = after(
        CONFIG,
        &[ACTIVE, DOWN, Input::Expired(Timer::HandlerDelete)],
    );
    assert_eq!(steps, clean_exit());
}

#[test]
fn vm_that_is_started_again_is_not_deleted() {
    let (mut lifetime, steps) = after(CONFIG, &[ACTIVE, DOWN, ACTIVE]);
    assert_eq!(steps, []);
    assert_eq!(lifetime.observe(Input::Expired(Timer::HandlerDelete)), []);
}

#[test]
fn guest_is_asked_to_power_off_once_if_virt_handler_does_not_act() {
    let (mut lifetime, steps) = after(CONFIG, &[ACTIVE, SIGNAL]);
    assert_eq!(
        steps,
        [
            Step::MarkGracefulShutdown,
            Step::Arm(Timer::HandlerShutdown, HANDLER_SHUTDOWN_TIMEOUT),
            Step::Arm(Timer::GracePeriod, CONFIG.grace_period)
        ]
    );
    assert_eq!(lifetime.observe(SIGNAL), [], "only the first signal counts");
    assert_eq!(
        lifetime.observe(Input::Expired(Timer::HandlerShutdown)),
        [Step::RequestPowerOff]
    );
    assert_eq!(lifetime.observe(Input::Expired(Timer::HandlerShutdown)), []);
    assert_eq!(
        lifetime.observe(DOWN),
        clean_exit(),
        "virt-handler is not waited for"
    );
}

#[test]
fn launcher_does_not_ask_the_guest_if_virt_handler_does() {
    let (_, steps) = after(
        CONFIG,
        &[
            ACTIVE,
            SIGNAL,
            Input::PowerOffRequested,
            Input::Expired(Timer::HandlerShutdown),
        ],
    );
    assert_eq!(steps, []);
    let (_, steps) = after(CONFIG, &[ACTIVE, Input::PowerOffRequested, SIGNAL]);
    assert_eq!(
        steps,
        [
            Step::MarkGracefulShutdown,
            Step::Arm(Timer::GracePeriod, CONFIG.grace_period)
        ]
    );
}

#[test]
fn delete_that_follows_virt_handlers_shutdown_is_waited_for_a_moment_after_a_signal() {
    for inputs in [
        [ACTIVE, SIGNAL, Input::PowerOffRequested, DOWN],
        [ACTIVE, Input::PowerOffRequested, SIGNAL, DOWN],
    ] {
        let (mut lifetime, steps) = after(CONFIG, &inputs);
        let wait = Step::Arm(Timer::HandlerDelete, HANDLER_DELETE_TIMEOUT_AFTER_SIGNAL);
        assert_eq!(steps, [Step::RunShutdownHooks, wait]);
        assert_eq!(lifetime.observe(GONE), clean_exit());
        let (mut lifetime, _) = after(CONFIG, &inputs);
        let expired = Input::Expired(Timer::HandlerDelete);
        assert_eq!(lifetime.observe(expired), clean_exit());
    }
    // The launcher's own request comes back as an input, too.
    let own = [
        ACTIVE,
        SIGNAL,
        Input::Expired(Timer::HandlerShutdown),
        Input::PowerOffRequested,
        DOWN,
    ];
    assert_eq!(after(CONFIG, &own).1, clean_exit());
}

#[test]
fn standalone_launcher_asks_the_guest_at_once_and_does_not_wait_for_a_delete() {
    let (_, steps) = after(STANDALONE, &[ACTIVE, SIGNAL]);
    assert_eq!(steps[1], Step::RequestPowerOff);
    assert_eq!(after(STANDALONE, &[ACTIVE, DOWN]).1, clean_exit());
}

#[test]
fn kill_is_repeated_after_the_grace_period() {
    let (mut lifetime, steps) = after(
        CONFIG,
        &[ACTIVE, SIGNAL, Input::Expired(Timer::GracePeriod)],
    );
    assert_eq!(
        steps,
        [
            Step::Kill,
            Step::Arm(Timer::GracePeriod, KILL_RETRY_INTERVAL)
        ]
    );
    assert_eq!(
        lifetime.observe(Input::Expired(Timer::GracePeriod))[0],
        Step::Kill
    );
}

#[test]
fn domain_that_never_starts_counts_as_ended() {
    let (_, steps) = after(CONFIG, &[DEFINED, Input::Expired(Timer::QemuStart)]);
    assert_eq!(
        steps[1],
        Step::Arm(Timer::HandlerDelete, HANDLER_DELETE_TIMEOUT)
    );
    assert_eq!(
        after(CONFIG, &[DEFINED, ACTIVE, Input::Expired(Timer::QemuStart)]).1,
        []
    );
}

fn any_input() -> impl Strategy<Value = Input> {
    prop_oneof![
        Just(DEFINED),
        Just(ACTIVE),
        Just(DOWN),
        Just(GONE),
        any::<bool>().prop_map(|is_guest_here| Input::Signal { is_guest_here }),
        Just(Input::PowerOffRequested),
        Just(Input::DeletedBeforeDefinition),
        prop_oneof![
            Just(Timer::DomainDefined),
            Just(Timer::QemuStart),
            Just(Timer::HandlerShutdown),
            Just(Timer::GracePeriod),
            Just(Timer::HandlerDelete)
        ]
        .prop_map(Input::Expired),
    ]
}

proptest! {
    #[test]
    fn hooks_run_before_exit_which_comes_once_and_last_and_the_guest_is_asked_at_most_once(
        inputs in proptest::collection::vec(any_input(), 0..20), standalone: bool)
    {
        let (mut lifetime, mut steps) = Lifetime::begin(LifetimeConfig { standalone, ..CONFIG });
        for input in inputs {
            steps.extend(lifetime.observe(input));
        }
        steps.extend(lifetime.observe(GONE));
        let count = |matches: fn(&Step) -> bool| steps.iter().filter(|step| matches(step)).count();
        prop_assert_eq!(count(|step| matches!(step, Step::Exit(_))), 1);
        prop_assert!(matches!(steps.as_slice(), [.., Step::RunShutdownHooks, Step::Exit(_)]));
        prop_assert!(count(|step| matches!(step, Step::RequestPowerOff)) <= 1);
    }
}
