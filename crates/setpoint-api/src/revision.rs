//! `Revision`: an immutable snapshot of an App's template, configuration and deployer parameters.
