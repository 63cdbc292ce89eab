//! Open files that this process was started with and that nobody after it is to have.

/// The first number that is neither standard input, output nor error.
const FIRST: i32 = 3;

/// Has everything that is open now close by itself in whatever this process starts or becomes. What it opens itself from
/// then on does so anyway: what remains are files that the one who started it left open.
pub fn close_on_exec() {
    close_fds::set_fds_cloexec_threadsafe(FIRST, &[]);
}
