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

const ACTIVE: Input = Input::State(VmState::Active);
const DOWN: Input = Input::State(VmState::Down);
const GONE: Input = Input::State(VmState::Gone);
const DEFINED: Input = Input::State(VmState::Defined);

fn clean() -> Vec<Step> {
    vec![Step::RunShutdownHooks, Step::Exit(Ending::Clean)]
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
fn a_signal_without_a_domain_ends_at_once() {
    assert_eq!(after(TERMS, &[Input::Signal]).1, clean());
    assert_eq!(after(TERMS, &[DEFINED, Input::Signal]).1, clean());
}

#[test]
fn virt_handler_deletes_what_ended() {
    let (mut lifetime, steps) = after(TERMS, &[DEFINED, ACTIVE, DOWN]);
    assert_eq!(
        steps,
        [
            Step::RunShutdownHooks,
            Step::Arm(Timer::Delete, HANDLER_DELETES_WITHIN)
        ]
    );
    assert_eq!(
        lifetime.observe(GONE),
        [Step::Exit(Ending::Clean)],
        "hooks run once"
    );
}

#[test]
fn a_delete_that_never_comes_is_not_waited_for_forever() {
    let (_, steps) = after(TERMS, &[ACTIVE, DOWN, Input::Expired(Timer::Delete)]);
    assert_eq!(steps, [Step::Exit(Ending::Clean)]);
}

#[test]
fn a_start_that_is_repeated_is_watched_again() {
    let (mut lifetime, steps) = after(TERMS, &[ACTIVE, DOWN, ACTIVE]);
    assert_eq!(steps, []);
    assert_eq!(lifetime.observe(Input::Expired(Timer::Delete)), []);
}

#[test]
fn the_guest_is_asked_once_when_virt_handler_is_silent() {
    let (mut lifetime, steps) = after(TERMS, &[ACTIVE, Input::Signal]);
    assert_eq!(
        steps,
        [
            Step::MarkGracefulShutdown,
            Step::Arm(Timer::Ask, HANDLER_ASKS_WITHIN),
            Step::Arm(Timer::Grace, TERMS.grace_period)
        ]
    );
    assert_eq!(
        lifetime.observe(Input::Signal),
        [],
        "the first signal counts"
    );
    assert_eq!(
        lifetime.observe(Input::Expired(Timer::Ask)),
        [Step::AskGuest]
    );
    assert_eq!(lifetime.observe(Input::Expired(Timer::Ask)), []);
    assert_eq!(lifetime.observe(DOWN), clean(), "nobody is waited for");
}

#[test]
fn when_virt_handler_asks_the_launcher_does_not() {
    let (_, steps) = after(
        TERMS,
        &[
            ACTIVE,
            Input::Signal,
            Input::GuestAsked,
            Input::Expired(Timer::Ask),
        ],
    );
    assert_eq!(steps, []);
    let (_, steps) = after(TERMS, &[ACTIVE, Input::GuestAsked, Input::Signal]);
    assert_eq!(
        steps,
        [
            Step::MarkGracefulShutdown,
            Step::Arm(Timer::Grace, TERMS.grace_period)
        ]
    );
}

#[test]
fn alone_the_launcher_asks_at_once_and_waits_for_no_delete() {
    let (_, steps) = after(ALONE, &[ACTIVE, Input::Signal]);
    assert_eq!(steps[1], Step::AskGuest);
    assert_eq!(after(ALONE, &[ACTIVE, DOWN]).1, clean());
}

#[test]
fn the_end_of_the_grace_period_kills_until_it_helps() {
    let (mut lifetime, steps) = after(
        TERMS,
        &[ACTIVE, Input::Signal, Input::Expired(Timer::Grace)],
    );
    assert_eq!(steps, [Step::Kill, Step::Arm(Timer::Grace, KILL_AGAIN)]);
    assert_eq!(
        lifetime.observe(Input::Expired(Timer::Grace))[0],
        Step::Kill
    );
}

#[test]
fn a_domain_that_never_starts_is_given_up() {
    let (_, steps) = after(TERMS, &[DEFINED, Input::Expired(Timer::Qemu)]);
    assert_eq!(steps[1], Step::Arm(Timer::Delete, HANDLER_DELETES_WITHIN));
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
        Just(Input::Signal),
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
