//! How the API server reaches Pods: through the providers that run them in this process.

use std::sync::Arc;

use setpoint_apiserver::streams::{
    AccessError, Answer, AttachOptions, ExecOptions, Exit, LogOptions, LogStream, LogStreams, PodAccess, PodRef,
    Session, TerminalSize,
};
use setpoint_controllers::node::Providers;
use setpoint_core::pod::{ContainerState, Phase};
use setpoint_deployer::provider::{Instance, Scope};
use setpoint_deployer::session::{self, Command, CommandExit, LogSource, Terminal};
use setpoint_deployer::{Error, Fault, Provider};
use tokio::sync::{mpsc, watch};

/// The Pods of all nodes whose agents run in this process.
#[derive(Debug)]
pub(crate) struct Pods {
    pub(crate) providers: Providers,
}

impl PodAccess for Pods {
    fn logs<'a>(&'a self, pod: &'a PodRef, options: LogOptions) -> Answer<'a, LogStream> {
        Box::pin(async move {
            let provider = self.provider(pod)?;
            let instance = instance(&*provider, pod).await?;
            let logs = provider.logs().ok_or_else(|| unsupported(pod, "show logs"))?;
            let container = container(&instance, pod)?;
            match &container.phase {
                Phase::Waiting { reason, .. } if container.last_exit.is_none() => {
                    return Err(AccessError::NotRunning(is_waiting(pod, reason)));
                }
                _ if options.previous && container.last_exit.is_none() => {
                    let (name, container) = (&pod.name, &pod.container);
                    let message = format!("previous terminated container {container:?} in pod {name:?} not found");
                    return Err(AccessError::NotRunning(message));
                }
                _ => {}
            }
            logs.read(&instance.guest.id, &pod.container, log_options(&options)).await.map_err(|error| explain(&error))
        })
    }

    fn exec<'a>(&'a self, pod: &'a PodRef, options: ExecOptions, session: Session) -> Answer<'a, Exit> {
        Box::pin(async move {
            let provider = self.provider(pod)?;
            let instance = running(&*provider, pod).await?;
            let exec = provider.exec().ok_or_else(|| unsupported(pod, "run commands"))?;
            let command = Command { arguments: options.command, has_terminal: options.tty };
            let ended = exec.exec(&instance.guest.id, &pod.container, command, terminal(session)).await;
            ended.map(exit).map_err(|error| explain(&error))
        })
    }

    fn attach<'a>(&'a self, pod: &'a PodRef, _: AttachOptions, session: Session) -> Answer<'a, Exit> {
        Box::pin(async move {
            let provider = self.provider(pod)?;
            let instance = running(&*provider, pod).await?;
            let exec = provider.exec().ok_or_else(|| unsupported(pod, "be attached to"))?;
            let ended = exec.attach(&instance.guest.id, &pod.container, terminal(session)).await;
            ended.map(exit).map_err(|error| explain(&error))
        })
    }
}

impl Pods {
    fn provider(&self, pod: &PodRef) -> Result<Arc<dyn Provider>, AccessError> {
        let unknown = || AccessError::Unreachable(format!("the node {:?} is not one of this server's", pod.node));
        self.providers.get(&pod.node).ok_or_else(unknown)
    }
}

async fn instance(provider: &dyn Provider, pod: &PodRef) -> Result<Instance, AccessError> {
    let scope = Scope::Owner(pod.uid.as_str().into());
    let observed = provider.observe(&scope).await.map_err(|error| explain(&error))?;
    let is_its = |instance: &Instance| instance.guest.mark.as_ref().is_some_and(|mark| *mark.owner_uid == *pod.uid);
    let instance = observed.instances.into_iter().find(is_its);
    instance.ok_or_else(|| AccessError::NotRunning(is_waiting(pod, "ContainerCreating")))
}

async fn running(provider: &dyn Provider, pod: &PodRef) -> Result<Instance, AccessError> {
    let instance = instance(provider, pod).await?;
    match container(&instance, pod)?.is_running() {
        true => Ok(instance),
        false => Err(AccessError::NotRunning(format!("container not found ({:?})", pod.container))),
    }
}

fn container<'a>(instance: &'a Instance, pod: &PodRef) -> Result<&'a ContainerState, AccessError> {
    let state = instance.pod.as_ref().and_then(|state| state.container(&pod.container));
    state.ok_or_else(|| AccessError::NotRunning(is_waiting(pod, "ContainerCreating")))
}

fn is_waiting(pod: &PodRef, reason: &str) -> String {
    format!("container {:?} in pod {:?} is waiting to start: {reason}", pod.container, pod.name)
}

fn unsupported(pod: &PodRef, ability: &str) -> AccessError {
    AccessError::Unsupported(format!("what runs the pods of node {:?} cannot {ability}", pod.node))
}

fn explain(error: &Error) -> AccessError {
    let Error::Provider(answer) = error else { return AccessError::Unsupported(error.to_string()) };
    match answer.fault {
        Fault::NotFound => AccessError::NotFound(error.to_string()),
        Fault::Unreachable | Fault::Unanswered => AccessError::Unreachable(error.to_string()),
        _ => AccessError::Failed(error.to_string()),
    }
}

fn log_options(options: &LogOptions) -> session::LogOptions {
    session::LogOptions {
        follow: options.follow,
        previous: options.previous,
        since: options.since,
        tail_lines: options.tail_lines,
        limit_bytes: options.limit_bytes,
        timestamps: options.timestamps,
        source: match options.streams {
            LogStreams::All => LogSource::All,
            LogStreams::Stdout => LogSource::Output,
            LogStreams::Stderr => LogSource::Errors,
        },
    }
}

fn exit(ended: CommandExit) -> Exit {
    if ended.code == 0 { Exit::Success } else { Exit::Code(ended.code) }
}

fn terminal(session: Session) -> Terminal {
    let Session { stdin, stdout, stderr, sizes } = session;
    Terminal { input: stdin, output: stdout, errors: stderr, sizes: sizes_of(sizes) }
}

/// The sizes of a terminal one after another. Those that nobody took in time are forgotten.
fn sizes_of(mut sizes: watch::Receiver<Option<TerminalSize>>) -> mpsc::Receiver<session::TerminalSize> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let size = *sizes.borrow_and_update();
            if let Some(TerminalSize { width, height }) = size {
                let size = session::TerminalSize { columns: width, rows: height };
                if sender.send(size).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                changed = sizes.changed() => if changed.is_err() { return },
                () = sender.closed() => return,
            }
        }
    });
    receiver
}
