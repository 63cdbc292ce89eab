//! What every provider and every deployer must pass: one function per guarantee of the contract.
//!
//! An implementation brings a [`Subject`]. A guarantee is judged by what is observed, and by a [`Witness`] that sees the
//! place from outside, never by what the implementation says of itself. One that needs a place to fail is not applicable
//! where the place cannot fail that way, and says so.
//!
//! [`Noop`] and [`Liar`] are there to be found out.

mod belonging;
mod crashing;
mod crowding;
mod ending;
mod failing;
mod faulty;
mod making;
mod pretenders;
mod record;
#[cfg(test)]
mod reference;
mod refusing;
mod report;
mod revision_life;
mod revision_trouble;
mod splits;
mod subject;
#[cfg(test)]
mod tests;
mod trial;
mod using;

pub use belonging::*;
pub use crashing::*;
pub use crowding::*;
pub use ending::*;
pub use failing::*;
pub use faulty::{Faulty, Weather};
pub use making::*;
#[cfg(test)]
pub(crate) use pretenders::order as sample_order;
pub use pretenders::{Liar, Noop};
pub use refusing::*;
pub use report::{Guarantee, Line, Report, prove, run};
pub use revision_life::*;
pub use revision_trouble::*;
pub use splits::*;
pub use subject::*;
pub use trial::{Trial, Unproven, Verdict};
pub use using::*;

macro_rules! guarantees {
    ($($name:ident)+) => {
        &[$(Guarantee { name: stringify!($name), check: |trial| Box::pin($name(trial)) }),+]
    };
}

/// Everything that the contract promises: of a provider first, then of a deployer.
pub const GUARANTEES: &[Guarantee] = guarantees! {
    what_is_made_runs_and_carries_its_mark
    observing_changes_nothing
    a_scope_shows_only_what_is_in_it
    another_client_sees_and_does_the_same
    a_create_twice_makes_one_instance
    an_update_twice_is_as_once
    two_intents_make_two_instances
    what_is_asked_to_stop_stops
    a_stop_twice_is_as_once
    what_does_not_end_is_made_to_when_its_grace_is_over
    what_ends_within_its_grace_is_not_killed
    a_later_stop_may_shorten_the_grace
    a_later_stop_never_lengthens_the_grace
    what_was_stopped_can_be_started_again
    a_delete_removes_what_runs
    a_delete_twice_is_as_once
    verbs_on_what_is_not_there_do_no_harm
    a_wrong_order_is_refused_before_anything_is_sent
    an_incomplete_order_is_refused_before_anything_is_sent
    a_call_without_an_id_is_refused_before_anything_is_sent
    errors_name_the_call_and_tell_no_secret
    an_owner_who_lost_the_record_finds_the_instances
    what_is_foreign_is_shown_and_never_touched
    a_mark_twice_is_as_once
    what_is_anothers_is_not_marked
    an_update_keeps_what_an_instance_is_known_by
    a_neighbour_is_left_alone
    a_crash_within_a_create_leaves_one_instance
    a_crash_within_a_stop_is_mended_by_asking_again
    a_crash_within_a_delete_is_mended_by_asking_again
    a_crash_between_calls_loses_nothing
    many_callers_of_one_create_get_one_instance
    many_instances_are_made_at_once
    many_callers_of_all_verbs_leave_no_mess
    a_lost_answer_to_a_create_leaves_one_instance
    a_lost_answer_to_a_delete_is_mended_by_asking_again
    a_call_that_failed_can_be_made_again
    half_a_create_is_found_and_finished
    half_a_create_is_found_and_removed
    a_slow_provider_is_given_up_on_in_time
    a_dead_provider_is_given_up_on_in_time
    garbage_is_no_observation
    garbage_is_no_instance
    what_was_written_is_read
    a_command_tells_what_it_said_and_how_it_ended
    what_happens_is_told
    a_staged_revision_runs_nothing
    a_warm_revision_runs_as_many_as_are_asked_for
    a_revision_lives_from_stage_to_archive
    every_verb_of_a_revision_twice_is_as_once
    a_drained_revision_can_be_warmed_again
    a_drain_ends_at_its_deadline
    a_drain_lets_instances_finish
    an_archive_of_what_is_gone_is_done_already
    verbs_of_a_revision_out_of_order_do_no_harm
    an_unknown_revision_is_refused_before_anything_is_sent
    a_drain_of_what_has_traffic_is_refused
    an_archive_of_what_stands_in_the_split_is_refused
    a_siblings_instances_and_split_are_left_alone
    the_split_returned_is_the_one_recorded_and_observed
    a_split_outlives_its_caller
    a_split_that_does_not_add_up_is_refused
    a_sum_is_made_in_64_bits
    a_weight_above_the_whole_is_refused
    a_revision_twice_in_a_split_is_refused
    a_split_with_an_unknown_revision_is_refused
    a_split_with_a_strange_revision_is_refused
    a_missing_split_is_refused
    the_runtime_configuration_is_the_split_in_order
    the_runtime_configuration_without_a_split_is_empty
    a_crash_within_a_warm_leaves_as_many_as_were_asked_for
    a_crash_within_an_archive_is_mended_by_asking_again
    many_callers_of_one_warm_leave_as_many_as_were_asked_for
    a_lost_answer_to_a_warm_leaves_as_many_as_were_asked_for
    half_a_warm_is_mended_by_asking_again
    a_dead_place_is_given_up_on_in_time
};
