//! The results as tables of Markdown.

use super::Results;
use crate::samples::{Line, Setting};

/// Prints a table for each setting, the sizes of the programs, and the targets.
pub fn print(results: &Results) {
    let mut settings: Vec<Setting> = Vec::new();
    for line in &results.measures {
        if !settings.contains(&line.setting) {
            settings.push(line.setting);
        }
    }
    for setting in settings {
        let of_setting = results
            .measures
            .iter()
            .filter(|line| line.setting == setting);
        one(results, &setting, &of_setting.collect::<Vec<_>>());
    }
    binaries(results);
    targets(results);
}

/// Prints each measure as its median and, in brackets, the median of its ratios with their 10th and 90th percentile.
fn one(results: &Results, setting: &Setting, lines: &[&Line]) {
    let mut measures = Vec::new();
    for line in lines {
        if !measures.contains(&line.measure) {
            measures.push(line.measure);
        }
    }
    println!(
        "\n### {} on {}: event {} bytes, receipt {} bytes, {} records in the cache, {} in flight\n",
        setting.part.name(),
        setting.server.name(),
        setting.event_bytes,
        setting.receipt_bytes,
        setting.records,
        setting.in_flight
    );
    let names: Vec<_> = measures
        .iter()
        .map(|measure| format!("{} ({})", measure.name(), measure.unit()))
        .collect();
    println!("| contestant | {} |", names.join(" | "));
    println!("|---|{}", "---|".repeat(measures.len()));
    for entry in &results.contestants {
        let cell = |measure| {
            let line = lines
                .iter()
                .find(|line| line.measure == measure && line.contestant == entry.name);
            let Some(line) = line else {
                return String::new();
            };
            let ratio = line.ratio.as_ref().map_or_else(String::new, |ratio| {
                let ratio = ratio.summary;
                format!(
                    " ({:.2}; {:.2} to {:.2})",
                    ratio.median, ratio.p10, ratio.p90
                )
            });
            format!("{:.1}{ratio}", line.summary.median)
        };
        let cells: Vec<_> = measures.iter().map(|measure| cell(*measure)).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            println!("| {} | {} |", entry.name, cells.join(" | "));
        }
    }
}

fn binaries(results: &Results) {
    println!("\n### Programs\n\n| contestant | bytes | without symbols |\n|---|---|---|");
    for entry in &results.contestants {
        if let Some(binary) = entry.binary {
            let stripped = binary
                .stripped_bytes
                .map_or_else(String::new, |bytes| bytes.to_string());
            println!("| {} | {} | {stripped} |", entry.name, binary.bytes);
        }
    }
}

fn targets(results: &Results) {
    println!(
        "\n### Targets\n\n| contestant | what | database | event | measured | limit | met |\n|---|---|---|---|---|---|---|"
    );
    for target in &results.targets {
        println!(
            "| {} | {} | {} | {} | {:.2} | {} {} | {} |",
            target.contestant,
            target.what,
            target.server.map_or("", |server| server.name()),
            target
                .event_bytes
                .map_or_else(String::new, |bytes| bytes.to_string()),
            target.measured,
            if target.at_least { ">=" } else { "<=" },
            target.limit,
            if target.met { "yes" } else { "NO" },
        );
    }
}
