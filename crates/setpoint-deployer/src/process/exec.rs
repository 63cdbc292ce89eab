//! stub
use super::provider::ProcessProvider;
use crate::provider::Answer;
use crate::session::{Command, CommandExit, Exec, Terminal};
impl Exec for ProcessProvider {
    fn exec<'a>(&'a self, _: &'a str, _: &'a str, _: Command, _: Terminal) -> Answer<'a, CommandExit> { Box::pin(std::future::pending()) }
    fn attach<'a>(&'a self, _: &'a str, _: &'a str, _: Terminal) -> Answer<'a, CommandExit> { Box::pin(std::future::pending()) }
}
