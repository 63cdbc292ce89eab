//! Which objects of the files are meant.

use anyhow::{Result, bail};
use clap::Args;

use crate::proposal::ObjectChange;
use crate::terminal::inert;

/// Objects by kind and name.
#[derive(Debug, Default, Args)]
pub(crate) struct Selection {
    /// Only this object: NAME, or KIND/NAME; may be repeated
    #[arg(long, value_name = "[KIND/]NAME")]
    target: Vec<String>,
    /// Not this object: NAME, or KIND/NAME; may be repeated
    #[arg(long, value_name = "[KIND/]NAME")]
    exclude: Vec<String>,
}

impl Selection {
    pub(crate) fn takes(&self, object: &ObjectChange) -> bool {
        let is_meant = |words: &[String]| words.iter().any(|word| means(word, object));
        (self.target.is_empty() || is_meant(&self.target)) && !is_meant(&self.exclude)
    }

    /// Whether only some objects are meant.
    pub(crate) fn is_partial(&self) -> bool {
        !self.target.is_empty() || !self.exclude.is_empty()
    }

    /// A target that means nothing is a mistake.
    pub(crate) fn must_take<'a>(&self, objects: impl Iterator<Item = &'a ObjectChange>) -> Result<()> {
        let objects: Vec<&ObjectChange> = objects.collect();
        let Some(word) = self.target.iter().find(|word| !objects.iter().any(|object| means(word, object))) else {
            return Ok(());
        };
        match self.exclude.iter().find(|other| is_same(word, other)) {
            Some(other) => bail!("--target {}: --exclude {} leaves it out", inert(word), inert(other)),
            None => bail!("--target {}: there is no such object in the files", inert(word)),
        }
    }
}

/// Whether two words may mean the same object.
fn is_same(word: &str, other: &str) -> bool {
    let parted = |word: &str| match word.rsplit_once('/') {
        Some((kind, name)) => (kind.split('.').next().map(str::to_lowercase), name.to_owned()),
        None => (None, word.to_owned()),
    };
    let ((kind, name), (other_kind, other_name)) = (parted(word), parted(other));
    name == other_name && (kind.is_none() || other_kind.is_none() || kind == other_kind)
}

/// `web`, `machine/web` or `machine.setpoint.dev/web`.
fn means(word: &str, object: &ObjectChange) -> bool {
    match word.rsplit_once('/') {
        None => word == object.name,
        Some((kind, name)) => {
            let (kind, own) = (kind.to_lowercase(), object.kind.split('.').next().unwrap_or_default());
            name == object.name && (kind == object.kind || kind == own)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_meant_by_name_or_kind_and_name() {
        let object = |kind: &str, name: &str| {
            ObjectChange::between(kind.to_owned(), Some("shop".to_owned()), name.to_owned(), None, None)
        };
        let objects =
            [object("machine.setpoint.dev", "web"), object("configmap", "web"), object("machine.setpoint.dev", "db")];
        type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str], &'a [usize]);
        let rows: [Row<'_>; 6] = [
            ("everything", &[], &[], &[0, 1, 2]),
            ("a name", &["web"], &[], &[0, 1]),
            ("a kind and a name", &["Machine/web"], &[], &[0]),
            ("a kind with its group", &["machine.setpoint.dev/db", "configmap/web"], &[], &[1, 2]),
            ("all but one", &[], &["db"], &[0, 1]),
            ("an exception", &["web"], &["configmap/web"], &[0]),
        ];
        for (row, target, exclude, expected) in rows {
            let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
            let selection = Selection { target: owned(target), exclude: owned(exclude) };
            let taken: Vec<usize> = (0..objects.len()).filter(|&index| selection.takes(&objects[index])).collect();
            assert_eq!(taken, expected, "{row}");
            assert!(selection.must_take(objects.iter()).is_ok(), "{row}");
        }
        let misspelt = Selection { target: vec!["machine/wbe".to_owned()], exclude: Vec::new() };
        let error = misspelt.must_take(objects.iter()).expect_err("there is none").to_string();
        assert_eq!(error, "--target machine/wbe: there is no such object in the files");
        let both = Selection { target: vec!["machine/db".to_owned()], exclude: vec!["db".to_owned()] };
        let error = both.must_take(std::iter::empty()).expect_err("nothing is left").to_string();
        assert_eq!(error, "--target machine/db: --exclude db leaves it out");
    }
}
