//! `TrafficSplit`: which revisions of an App get how many basis points.
