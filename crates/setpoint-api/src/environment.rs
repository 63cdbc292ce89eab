//! `Environment`: a place where things run, and its rules.
