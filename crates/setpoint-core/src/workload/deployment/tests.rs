//! Tables of what a Deployment does next.
