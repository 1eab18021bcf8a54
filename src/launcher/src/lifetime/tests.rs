use proptest::prelude::*;

use super::*;

const TERMS: Terms = Terms {
    qemu_timeout: Duration::from_secs(180),
    grace_period: Duration::from_secs(20),
    standalone: false,
};
const ALONE: Terms = Terms {
    standalone: true,
    ..TERMS
};

fn after(terms: Terms, inputs: &[Input]) -> (Lifetime, Vec<Step>) {
    let (mut lifetime, mut last) = Lifetime::begin(terms);
    for input in inputs {
        last = lifetime.observe(*input);
    }
    (lifetime, last)
}

const ACTIVE: Input = Input::State(Phase::Active);
const DOWN: Input = Input::State(Phase::Down);
const GONE: Input = Input::State(Phase::Gone);
const SIGNAL: Input = Input::Signal { arrived: true };
const DEFINED: Input = Input::State(Phase::Defined);

fn clean() -> Vec<Step> {
    vec![Step::RunShutdownHooks, Step::Exit(Ending::Clean)]
}

#[test]
fn unused_target_ends_cleanly_and_an_arrived_vm_goes_on() {
    let clean_up = |state, arrived| {
        let (mut lifetime, _) = Lifetime::begin(TERMS);
        lifetime.observe(Input::State(state));
        lifetime.observe(Input::CleanUpTarget { arrived })
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
fn signal_to_a_target_ends_the_vm_that_has_not_arrived_and_asks_no_guest() {
    let arriving = Input::Signal { arrived: false };
    let (mut lifetime, steps) = after(TERMS, &[ACTIVE, arriving]);
    assert_eq!(
        steps,
        [Step::Kill, Step::Arm(Timer::Grace, KILL_RETRY)],
        "the source goes on"
    );
    assert_eq!(lifetime.observe(DOWN), clean());
    assert_eq!(after(TERMS, &[arriving]).1, clean());
}

#[test]
fn no_domain_in_time_is_a_failure_and_hooks_still_run() {
    let (_, steps) = after(TERMS, &[Input::Expired(Timer::Domain)]);
    assert_eq!(
        steps,
        [
            Step::RunShutdownHooks,
            Step::Exit(Ending::NoDomain(TERMS.qemu_timeout))
        ]
    );
}

#[test]
fn signal_without_a_domain_ends_at_once() {
    assert_eq!(after(TERMS, &[SIGNAL]).1, clean());
    assert_eq!(after(TERMS, &[DEFINED, SIGNAL]).1, clean());
}

#[test]
fn ended_vm_is_deleted_by_virt_handler() {
    let (mut lifetime, steps) = after(TERMS, &[DEFINED, ACTIVE, DOWN]);
    assert_eq!(
        steps,
        [
            Step::RunShutdownHooks,
            Step::Arm(Timer::Delete, HANDLER_DELETE_TIMEOUT)
        ]
    );
    assert_eq!(
        lifetime.observe(GONE),
        [Step::Exit(Ending::Clean)],
        "hooks run once"
    );
}

#[test]
fn missing_delete_ends_the_launcher_after_a_timeout() {
    let (_, steps) = after(TERMS, &[ACTIVE, DOWN, Input::Expired(Timer::Delete)]);
    assert_eq!(steps, [Step::Exit(Ending::Clean)]);
}

#[test]
fn repeated_start_is_watched_again() {
    let (mut lifetime, steps) = after(TERMS, &[ACTIVE, DOWN, ACTIVE]);
    assert_eq!(steps, []);
    assert_eq!(lifetime.observe(Input::Expired(Timer::Delete)), []);
}

#[test]
fn guest_is_asked_once_when_virt_handler_does_not_act() {
    let (mut lifetime, steps) = after(TERMS, &[ACTIVE, SIGNAL]);
    assert_eq!(
        steps,
        [
            Step::MarkGracefulShutdown,
            Step::Arm(Timer::Ask, HANDLER_SHUTDOWN_TIMEOUT),
            Step::Arm(Timer::Grace, TERMS.grace_period)
        ]
    );
    assert_eq!(lifetime.observe(SIGNAL), [], "the first signal counts");
    assert_eq!(
        lifetime.observe(Input::Expired(Timer::Ask)),
        [Step::AskGuest]
    );
    assert_eq!(lifetime.observe(Input::Expired(Timer::Ask)), []);
    assert_eq!(lifetime.observe(DOWN), clean(), "nobody is waited for");
}

#[test]
fn launcher_does_not_ask_when_virt_handler_does() {
    let (_, steps) = after(
        TERMS,
        &[
            ACTIVE,
            SIGNAL,
            Input::GuestAsked,
            Input::Expired(Timer::Ask),
        ],
    );
    assert_eq!(steps, []);
    let (_, steps) = after(TERMS, &[ACTIVE, Input::GuestAsked, SIGNAL]);
    assert_eq!(
        steps,
        [
            Step::MarkGracefulShutdown,
            Step::Arm(Timer::Grace, TERMS.grace_period)
        ]
    );
}

#[test]
fn standalone_launcher_asks_the_guest_at_once_and_waits_for_no_delete() {
    let (_, steps) = after(ALONE, &[ACTIVE, SIGNAL]);
    assert_eq!(steps[1], Step::AskGuest);
    assert_eq!(after(ALONE, &[ACTIVE, DOWN]).1, clean());
}

#[test]
fn expired_grace_period_kills_repeatedly() {
    let (mut lifetime, steps) = after(TERMS, &[ACTIVE, SIGNAL, Input::Expired(Timer::Grace)]);
    assert_eq!(steps, [Step::Kill, Step::Arm(Timer::Grace, KILL_RETRY)]);
    assert_eq!(
        lifetime.observe(Input::Expired(Timer::Grace))[0],
        Step::Kill
    );
}

#[test]
fn domain_that_never_starts_ends_the_launcher() {
    let (_, steps) = after(TERMS, &[DEFINED, Input::Expired(Timer::Qemu)]);
    assert_eq!(steps[1], Step::Arm(Timer::Delete, HANDLER_DELETE_TIMEOUT));
    assert_eq!(
        after(TERMS, &[DEFINED, ACTIVE, Input::Expired(Timer::Qemu)]).1,
        []
    );
}

fn any_input() -> impl Strategy<Value = Input> {
    prop_oneof![
        Just(DEFINED),
        Just(ACTIVE),
        Just(DOWN),
        Just(GONE),
        any::<bool>().prop_map(|arrived| Input::Signal { arrived }),
        Just(Input::GuestAsked),
        prop_oneof![
            Just(Timer::Domain),
            Just(Timer::Qemu),
            Just(Timer::Ask),
            Just(Timer::Grace),
            Just(Timer::Delete)
        ]
        .prop_map(Input::Expired),
    ]
}

proptest! {
    #[test]
    fn hooks_and_exit_come_once_and_the_guest_is_asked_at_most_once(
        inputs in proptest::collection::vec(any_input(), 0..20), standalone: bool)
    {
        let (mut lifetime, mut steps) = Lifetime::begin(Terms { standalone, ..TERMS });
        for input in inputs {
            steps.extend(lifetime.observe(input));
        }
        steps.extend(lifetime.observe(GONE));
        let count = |wanted: fn(&Step) -> bool| steps.iter().filter(|step| wanted(step)).count();
        prop_assert_eq!(count(|step| matches!(step, Step::RunShutdownHooks)), 1);
        prop_assert_eq!(count(|step| matches!(step, Step::Exit(_))), 1);
        prop_assert!(matches!(steps.last(), Some(Step::Exit(_))));
        prop_assert!(count(|step| matches!(step, Step::AskGuest)) <= 1);
    }
}
