use super::*;

const SETTING: Setting = Setting {
    part: Part::Warm,
    server: ServerKind::Stub,
    event_bytes: 200,
    receipt_bytes: 100,
    records: 0,
    in_flight: 1,
};

fn contestants() -> Vec<Contestant> {
    let contestant = |name: &str, kind: &str, group: &str| {
        let json = serde_json::json!({
            "name": name, "label": name, "language": "Rust", "kind": kind, "event": "order", "group": group,
            "command": [name], "parts": ["warm"],
        });
        serde_json::from_value(json).unwrap()
    };
    vec![
        contestant("slow", "by-hand", "typed"),
        contestant("fast", "by-hand", "typed"),
        contestant("fastest", "by-hand", "value"),
        contestant("ours", "ours", "typed"),
    ]
}

fn line(samples: &Samples, name: &str) -> Line {
    let mut lines = samples.lines(&contestants());
    lines.retain(|line| line.contestant == name);
    assert_eq!(lines.len(), 1);
    lines.remove(0)
}

#[test]
fn the_ratio_is_to_the_better_hand_written_one_of_the_group_round_by_round() {
    let mut samples = Samples::default();
    // The machine is half as fast in the third round.
    for (name, value) in [
        ("slow", 40.0),
        ("fast", 20.0),
        ("fastest", 1.0),
        ("ours", 10.0),
    ] {
        for slower in [1.0, 1.0, 2.0] {
            samples.add(SETTING, Measure::FreshCpu, name, value * slower);
        }
    }
    let ours = line(&samples, "ours");
    assert_eq!((ours.summary.median, ours.summary.samples), (10.0, 3));
    let ratio = ours.ratio.unwrap();
    assert_eq!(ratio.to, "fast");
    let (median, p10, p90) = (ratio.summary.median, ratio.summary.p10, ratio.summary.p90);
    assert_eq!((median, p10, p90), (0.5, 0.5, 0.5));
}

#[test]
fn there_is_no_ratio_to_other_settings_or_measures() {
    let mut samples = Samples::default();
    let other = Setting {
        event_bytes: 4096,
        ..SETTING
    };
    samples.add(other, Measure::FreshCpu, "fast", 1.0);
    samples.add(SETTING, Measure::FreshWall, "fast", 1.0);
    samples.add(SETTING, Measure::FreshCpu, "ours", 1.0);
    assert!(line(&samples, "ours").ratio.is_none());
}

#[test]
fn percentiles_of_times_are_by_call_and_ratios_by_round() {
    let mut samples = Samples::default();
    for (name, faster) in [("fast", 1.0), ("ours", 2.0)] {
        let calls = [1.0, 2.0, 90.0].map(|value| value / faster);
        samples.add_calls(SETTING, Measure::FreshWall, name, calls);
        samples.add_calls(SETTING, Measure::FreshWall, name, calls);
    }
    let ours = line(&samples, "ours");
    assert_eq!(ours.summary.samples, 6);
    let ratio = ours.ratio.unwrap().summary;
    assert_eq!((ratio.median, ratio.samples), (0.5, 2));
}
