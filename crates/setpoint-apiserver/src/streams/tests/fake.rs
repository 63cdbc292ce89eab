//! Pods that are not there. A command does what its name says; nothing is known of containers, nodes or terminals.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::streams::{
    AccessError, Answer, AttachOptions, ExecOptions, Exit, LogOptions, LogStream, PodAccess, PodRef, Session,
};

/// One line of what every container logged.
pub(super) const LINE: &str = "all is well\n";

#[derive(Debug, Default)]
pub(super) struct Fake {
    /// Sessions and followed logs that are under way.
    pub(super) open: AtomicUsize,
    /// Pieces that the client of `yes` has room for so far.
    pub(super) pieces: AtomicUsize,
    /// What a followed log is given to go on with.
    pub(super) log: Mutex<Option<mpsc::UnboundedSender<Bytes>>>,
    /// Who was asked for last, and what was wanted of its log.
    pub(super) asked: Mutex<Option<(PodRef, Option<LogOptions>)>>,
}

/// Counts something as open while it lives.
struct Open<'f>(&'f AtomicUsize);

impl<'f> Open<'f> {
    fn new(count: &'f AtomicUsize) -> Open<'f> {
        count.fetch_add(1, Ordering::SeqCst);
        Open(count)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Fake {
    async fn run(&self, command: &str, session: Session) -> Result<Exit, AccessError> {
        let _open = Open::new(&self.open);
        let Session { mut stdin, stdout, stderr, mut sizes } = session;
        let say = async |to: &Option<mpsc::Sender<Bytes>>, what: String| match to {
            Some(to) => to.send(what.into()).await.is_ok(),
            None => false,
        };
        match command {
            "cat" => {
                while let Some(piece) = stdin.as_mut().expect("cat reads").recv().await {
                    let _ = stdout.as_ref().expect("cat writes").send(piece).await;
                }
                Ok(Exit::Success)
            }
            "fail" => {
                say(&stdout, "out".into()).await;
                say(&stderr, "err".into()).await;
                Ok(Exit::Code(7))
            }
            "size" => {
                let size = sizes.wait_for(Option::is_some).await.ok().and_then(|size| *size);
                let size = size.expect("a size was told");
                say(&stdout, format!("{}x{}", size.width, size.height)).await;
                Ok(Exit::Success)
            }
            "yes" => {
                while say(&stdout, "y\n".repeat(16 * 1024)).await {
                    self.pieces.fetch_add(1, Ordering::SeqCst);
                }
                Ok(Exit::Success)
            }
            "sleep" => std::future::pending().await,
            "lose" => Ok(Exit::Failed("the container is gone".into())),
            other => Err(AccessError::NotRunning(format!("{other} cannot run now"))),
        }
    }
}

impl PodAccess for Fake {
    fn logs<'a>(&'a self, pod: &'a PodRef, options: LogOptions) -> Answer<'a, LogStream> {
        let follow = options.follow;
        let previous = options.previous;
        *self.asked.lock() = Some((pod.clone(), Some(options)));
        let there = stream::iter([Ok(Bytes::from_static(LINE.as_bytes()))]);
        let log: LogStream = if follow {
            let (sender, receiver) = mpsc::unbounded_channel();
            *self.log.lock() = Some(sender);
            let more = stream::unfold(receiver, |mut receiver| async { Some((Ok(receiver.recv().await?), receiver)) });
            Box::pin(there.chain(more))
        } else {
            Box::pin(there)
        };
        async move {
            match previous {
                true => Err(AccessError::NotFound("there was no run before this one".into())),
                false => Ok(log),
            }
        }
        .boxed()
    }

    fn exec<'a>(&'a self, pod: &'a PodRef, options: ExecOptions, session: Session) -> Answer<'a, Exit> {
        *self.asked.lock() = Some((pod.clone(), None));
        async move { self.run(&options.command[0], session).await }.boxed()
    }

    fn attach<'a>(&'a self, pod: &'a PodRef, _: AttachOptions, session: Session) -> Answer<'a, Exit> {
        *self.asked.lock() = Some((pod.clone(), None));
        self.run("cat", session).boxed()
    }
}
