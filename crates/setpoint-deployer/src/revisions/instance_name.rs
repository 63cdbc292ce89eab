//! Which instance of which revision one is, as it stands in its mark: `shop/web/web-3/UID/0`.

use std::fmt;
use std::str::FromStr;

use crate::deployer::{AppName, RevisionOrder};

/// Names hold no slash, so the parts can always be told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InstanceName {
    pub app: AppName,
    pub revision: String,
    pub uid: String,
    pub index: u32,
}

/// The intent is not one of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoInstanceName;

impl InstanceName {
    pub(super) fn new(revision: &RevisionOrder, index: u32) -> InstanceName {
        InstanceName { app: revision.app.clone(), revision: revision.name.clone(), uid: revision.uid.clone(), index }
    }

    pub(super) fn is_of(&self, app: &AppName) -> bool {
        self.app == *app
    }
}

impl fmt::Display for InstanceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.app, self.revision, self.uid, self.index)
    }
}

impl FromStr for InstanceName {
    type Err = NoInstanceName;

    fn from_str(intent: &str) -> Result<InstanceName, NoInstanceName> {
        let parts: Vec<&str> = intent.split('/').collect();
        let [namespace, name, revision, uid, index] = parts[..] else { return Err(NoInstanceName) };
        let index = index.parse().map_err(|_| NoInstanceName)?;
        let app = AppName { namespace: namespace.to_owned(), name: name.to_owned() };
        Ok(InstanceName { app, revision: revision.to_owned(), uid: uid.to_owned(), index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written() {
        let rows = [
            ("an instance", "shop/web/web-3/1f2e/0", true),
            ("a part is missing", "shop/web/web-3/0", false),
            ("a part too many", "shop/web/web-3/1f2e/0/0", false),
            ("a number that is none", "shop/web/web-3/1f2e/first", false),
            ("an intent of somebody else", "5f0c", false),
        ];
        for (name, intent, is_one) in rows {
            let read = intent.parse::<InstanceName>();
            let expected = if is_one { Ok(intent.to_owned()) } else { Err(NoInstanceName) };
            assert_eq!(read.map(|read| read.to_string()), expected, "{name}");
        }
    }
}
