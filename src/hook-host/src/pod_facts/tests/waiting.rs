//! Waits for facts that the pod gets after the boot has begun.

use super::*;

#[tokio::test]
async fn a_fact_that_comes_later_is_waited_for() {
    let volume = DownwardApiVolume::new();
    let reader = volume.reader(Duration::from_secs(600), clock_of_an_hour());
    let write = async {
        tokio::time::sleep(Duration::from_millis(250)).await;
        volume.write(&[("late", "here")]);
    };
    let (found, ()) = tokio::join!(reader.ask(annotation("late"), true), write);
    assert_eq!(found.unwrap().unwrap(), "here");
    assert!(reader.waited() > Duration::ZERO);
    let repeated = reader.ask(annotation("late"), false).await;
    assert_eq!(repeated.unwrap().unwrap(), "here");
}

#[tokio::test]
async fn the_error_of_a_timed_out_wait_names_the_fact() {
    let volume = DownwardApiVolume::new();
    let clock = clock_of_an_hour();
    let end = clock.end();
    let reader = volume.reader(Duration::from_millis(150), clock.clone());
    let error = reader.ask(annotation("a.example/b"), true).await;
    let FactError::Absent(text) = error.unwrap_err() else {
        panic!("not absent");
    };
    assert!(
        text.starts_with("annotations/a.example/b is not there; it was waited for"),
        "{text}"
    );
    // The wait was added to the deadline of the call, and has used up the time to wait.
    assert_eq!(clock.end(), end + reader.waited());
    assert_eq!(reader.waited(), Duration::from_millis(150));
    let error = reader.ask(annotation("c"), true).await.unwrap_err();
    assert_eq!(
        error,
        FactError::Absent("annotations/c is not there".to_owned())
    );
    assert_eq!(reader.ask(annotation("c"), false).await, Ok(None));
}

#[tokio::test]
async fn waiting_ends_before_the_hook_point_does() {
    let volume = DownwardApiVolume::new();
    let call = Instant::now() + Duration::from_secs(3600);
    let clock = CallDeadline::new(call, Some(call + Duration::from_millis(120)));
    let reader = volume.reader(Duration::from_secs(600), clock);
    let error = reader.ask(annotation("a"), true).await.unwrap_err();
    assert!(
        matches!(&error, FactError::Absent(text) if text.ends_with("the deadline of the hook point left")),
        "{error:?}"
    );
    let clock = CallDeadline::new(call, Some(call));
    let reader = volume.reader(Duration::from_secs(600), clock);
    let error = reader.ask(annotation("a"), true).await.unwrap_err();
    assert!(
        matches!(&error, FactError::Absent(text) if text.contains("leaves no time to wait")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_cancelled_question_ends_the_wait() {
    let volume = DownwardApiVolume::new();
    let reader = volume.reader(Duration::from_secs(600), clock_of_an_hour());
    let ask = reader.ask(annotation("a"), true);
    let cancelled = tokio::time::timeout(Duration::from_millis(50), ask).await;
    assert!(cancelled.is_err());
    assert_eq!(reader.take_reads(), []);
}
