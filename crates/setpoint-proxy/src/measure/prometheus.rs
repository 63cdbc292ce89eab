//! What was counted, as text for Prometheus.

use std::fmt::Write;

use super::{Measured, Snapshot};

const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// All counts in Prometheus' text format.
pub fn render(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let mut line = |args: std::fmt::Arguments<'_>| {
        let _infallible = text.write_fmt(args);
        text.push('\n');
    };
    line(format_args!("# TYPE setpoint_proxy_table_version gauge"));
    line(format_args!("setpoint_proxy_table_version {}", snapshot.table_version));
    line(format_args!("# TYPE setpoint_proxy_connections gauge"));
    line(format_args!("setpoint_proxy_connections {}", snapshot.connections));
    line(format_args!("# TYPE setpoint_proxy_refused_total counter"));
    for (reason, count) in &snapshot.refused {
        line(format_args!("setpoint_proxy_refused_total{{reason=\"{}\"}} {count}", escaped(reason)));
    }
    for (what, of) in [("route", &snapshot.routes), ("group", &snapshot.groups)] {
        let each = || of.iter().map(|(name, measured)| (format!("{what}=\"{}\"", escaped(name)), measured));
        line(format_args!("# TYPE setpoint_proxy_{what}_requests_total counter"));
        for (label, measured) in each() {
            for (class, count) in CLASSES.iter().zip(measured.total.by_class).filter(|(_, count)| *count > 0) {
                line(format_args!("setpoint_proxy_{what}_requests_total{{{label},code=\"{class}\"}} {count}"));
            }
        }
        type Gauge = (&'static str, &'static str, fn(&Measured) -> u64);
        let gauges: [Gauge; 3] = [
            ("requests_in_flight", "gauge", |measured| measured.in_flight),
            ("request_bytes_total", "counter", |measured| measured.total.request_bytes),
            ("response_bytes_total", "counter", |measured| measured.total.response_bytes),
        ];
        for (name, kind, value) in gauges {
            line(format_args!("# TYPE setpoint_proxy_{what}_{name} {kind}"));
            for (label, measured) in each() {
                line(format_args!("setpoint_proxy_{what}_{name}{{{label}}} {}", value(measured)));
            }
        }
        let name = format!("setpoint_proxy_{what}_duration_seconds");
        line(format_args!("# TYPE {name} histogram"));
        for (label, measured) in each() {
            let latency = &measured.total.latency;
            for (bound_us, count) in latency.cumulative() {
                line(format_args!("{name}_bucket{{{label},le=\"{}\"}} {count}", bound_us as f64 / 1e6));
            }
            line(format_args!("{name}_bucket{{{label},le=\"+Inf\"}} {}", latency.count()));
            line(format_args!("{name}_sum{{{label}}} {}", latency.sum_us() as f64 / 1e6));
            line(format_args!("{name}_count{{{label}}} {}", latency.count()));
        }
    }
    text
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Measure, Outcome};

    #[test]
    fn counts_are_written_as_prometheus_reads_them() {
        let mut measure = Measure::default();
        measure.record(&Outcome { status: Some(200), latency_us: 1_200, request_bytes: 3, response_bytes: 5 }, 1_000);
        let mut measured = Measured { in_flight: 2, ..Measured::default() };
        measured.add(&measure, 1_001);
        let snapshot = Snapshot {
            routes: [("main/a\"b".to_owned(), measured)].into(),
            refused: [("two lengths".to_owned(), 4)].into(),
            ..Snapshot::default()
        };
        let text = render(&snapshot);
        for line in [
            "setpoint_proxy_refused_total{reason=\"two lengths\"} 4",
            "setpoint_proxy_route_requests_total{route=\"main/a\\\"b\",code=\"2xx\"} 1",
            "setpoint_proxy_route_requests_in_flight{route=\"main/a\\\"b\"} 2",
            "setpoint_proxy_route_response_bytes_total{route=\"main/a\\\"b\"} 5",
            "setpoint_proxy_route_duration_seconds_bucket{route=\"main/a\\\"b\",le=\"0.001\"} 0",
            "setpoint_proxy_route_duration_seconds_bucket{route=\"main/a\\\"b\",le=\"0.0015\"} 1",
            "setpoint_proxy_route_duration_seconds_count{route=\"main/a\\\"b\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is missing in:\n{text}");
        }
    }
}
