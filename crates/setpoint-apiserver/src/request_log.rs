//! Writes down what became of a request: a line for the audit log, and what it decides for the decision log.

use jiff::Timestamp;

use crate::audit;
use crate::failure::Result;
use crate::response::Response;
use crate::server::Shared;

/// What is written down of a request: in the audit log, and in the decision log.
pub(crate) struct Lines {
    line: Option<Vec<u8>>,
    decision: Option<(audit::decisions::Family, audit::decisions::Fact)>,
}

impl Shared {
    /// What is written down of a request, if anything is.
    pub(crate) fn lines(&self, record: &audit::Request, answer: &Result<Response>) -> Lines {
        let code = answer.as_ref().map_or_else(|failure| failure.code, |response| response.status());
        let (told, failure) = (answer.as_ref().ok().map(|response| response.extensions()), answer.as_ref().err());
        let made = told.and_then(|told| told.get());
        let refused_review = told.and_then(|told| told.get());
        let outcome = audit::Outcome { code, failure, made, refused_review, completed: Timestamp::now() };
        let log = self.audit.as_ref().filter(|log| record.is_kept(&outcome, log.has_routine()));
        let line = log.and_then(|log| {
            Some(record.line(outcome)).filter(|line| record.caller.is_some() || log.admits_stranger(line))
        });
        Lines { line, decision: self.decisions.get().and_then(|_| audit::decisions::fact(record, &outcome)) }
    }

    pub(crate) async fn write_down(&self, lines: Lines) {
        if let Some((log, line)) = self.audit.as_ref().zip(lines.line) {
            log.put(&line).await;
        }
        if let Some((log, (family, fact))) = self.decisions.get().zip(lines.decision) {
            log.put(family, fact).await;
        }
    }
}
