//! Measures Setpoint, an etcd beside it, and any other Kubernetes API server, with the same load.
//!
//! The load is ConfigMaps with 1 KB of data over HTTPS, one HTTP/1.1 keep-alive connection for each client. etcd gets
//! the same JSON as values, over plain HTTP/2 because it speaks nothing else, again with one connection for each
//! client. The clients run on the same machine and take their share of it. Data is kept below `TMPDIR`, which should
//! be on a disk; the result shows what a durable write costs there, and how busy the machine was before it began.

mod access;
mod apply;
mod arguments;
mod definitions;
mod etcd;
mod garbage;
mod goals;
mod lanes;
mod latency;
mod load;
mod machines;
mod object;
mod parts;
mod planning;
mod process;
mod processes;
mod proxy;
mod reconciles;
mod report;
mod subject;
mod watch;
mod workloads;

use anyhow::Result;
use clap::Parser;

use crate::arguments::{Arguments, Part};
use crate::report::{Report, Row};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the result is what the program is for")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    process::raise_open_files()?;
    let report = measure(&arguments).await?;
    if arguments.json {
        println!("{:#}", report.json());
    } else {
        print!("{report}");
    }
    Ok(())
}

async fn measure(arguments: &Arguments) -> Result<Report> {
    let mut report = Report::default();
    // First, while this process is small: its memory is measured.
    if arguments.wants(Part::Plan) {
        planning::measure(&mut report)?;
    }
    if arguments.wants_only(Part::Plan) {
        return Ok(report);
    }
    // It needs programs that are not everywhere, so it is measured only when it is named.
    if arguments.names(Part::Proxy) {
        proxy::measure(arguments, &mut report)?;
    }
    if arguments.wants_only(Part::Proxy) {
        return Ok(report);
    }
    let subject = arguments.subject()?;
    report.add(Row::new("load of the machine beforehand", "", process::load()?));
    let disk = process::disk(tempfile::tempdir()?.path())?;
    report.add(Row::new("disk: 4 KiB write + fdatasync p50", "ms", disk.quantile_ms(0.5)));
    if arguments.wants(Part::Start) {
        parts::start_empty(&subject, &mut report).await?;
    }
    if arguments.wants(Part::Creates) || arguments.wants(Part::Etcd) {
        parts::creates(&subject, arguments, &mut report).await?;
    }
    if arguments.wants(Part::Watch) {
        parts::watch(&subject, arguments, &mut report).await?;
    }
    if arguments.wants(Part::Access) {
        access::measure(&subject, arguments, &mut report).await?;
    }
    if arguments.wants(Part::Apply) {
        apply::measure(&subject, arguments, &mut report).await?;
    }
    if arguments.wants(Part::Crds) {
        definitions::measure(&subject, arguments, &mut report).await?;
    }
    if arguments.wants(Part::Gc) {
        garbage::measure(&subject, arguments, &mut report).await?;
    }
    if arguments.wants(Part::Processes) {
        processes::measure(&subject, &mut report).await?;
    }
    if arguments.wants(Part::Machines) {
        machines::measure(&subject, arguments, &mut report).await?;
    }
    if arguments.wants(Part::Lanes) {
        lanes::measure(&subject, arguments, &mut report).await?;
    }
    if arguments.wants(Part::Goals) {
        goals::measure(&subject, arguments, &mut report).await?;
    }
    if arguments.wants(Part::Workloads) {
        workloads::measure(&subject, arguments, &mut report).await?;
    }
    if [Part::Get, Part::List, Part::Memory, Part::Start].into_iter().any(|part| arguments.wants(part)) {
        parts::population(&subject, arguments, &mut report).await?;
    }
    Ok(report)
}
