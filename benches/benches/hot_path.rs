//! Times of the hot path, by criterion: `cargo bench --manifest-path benches/Cargo.toml`.

use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use idempotency_benches::cases;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .sample_size(20)
        .configure_from_args();
    let mut group = criterion.benchmark_group("hot_path");
    for case in cases::all("") {
        group.throughput(Throughput::Bytes(case.bytes as u64));
        group.bench_function(BenchmarkId::from_parameter(&case.name), |bencher| {
            bencher.iter_batched_ref(&case.prepare, |run| run(), BatchSize::SmallInput);
        });
    }
    group.finish();
    criterion.final_summary();
}
