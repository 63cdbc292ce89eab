//! stub
use crate::kind::*;
use serde_json::Value;
#[derive(Debug)]
pub struct Service;
impl Behaviour for Service {
    fn columns(&self) -> &[Column] {
        &[]
    }
    fn cells(&self, _: &Value, _: jiff::Timestamp) -> Vec<Value> {
        Vec::new()
    }
}
