//! Elements of the clock and its timers.

use kubevirt_api::typed_xml::element;

element! {
    /// The guest's clock.
    Clock {
        offset: String = attr "offset" when set => "Offset";
        timezone: String = attr "timezone" when set => "Timezone";
        adjustment: String = attr "adjustment" when set => "Adjustment";
        timer: Vec<Timer> = child "timer" => "Timer";
    }

    /// One timer.
    Timer {
        name: String = attr "name" => "Name";
        tick_policy: String = attr "tickpolicy" when set => "TickPolicy";
        present: String = attr "present" when set => "Present";
        track: String = attr "track" when set => "Track";
        frequency: String = attr "frequency" when set => "Frequency";
    }
}
