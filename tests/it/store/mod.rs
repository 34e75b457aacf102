//! Every store against the contract and the state table: one suite of plain async functions, run on
//! each store, with the time passed in.

mod batches;
pub mod bench;
pub mod calls;
mod concurrency;
pub mod damage;
pub mod equivalence;
mod file_bytes;
mod file_damaged;
mod file_only;
mod finished;
mod finished_many;
mod finished_redis;
mod history;
mod model;
mod promoting;
mod redis_only;
mod redis_scripts;
mod remembered;
mod reservations;
pub mod restore;
mod schedule;
mod table;
mod tokens;
mod topics;
mod usage;
pub mod workload;

on_each_store! {
    {
        on_file: super::bench::Bench::file().await,
        on_redis: super::bench::Bench::redis().await,
        on_cluster: super::bench::Bench::cluster().await,
    }
    {
        table:
            every_event_in_every_state_does_what_the_table_says,
            a_delete_leaves_a_job_in_a_state_that_it_excludes,
            every_event_without_a_job_does_what_the_table_says;
        reservations:
            going_by_id_alone_needs_a_job_that_was_popped,
            a_second_pop_ends_the_first_hold,
            a_reservation_survives_its_ttr_until_another_consumer_pops,
            a_lapsed_hold_cannot_be_touched,
            a_token_of_another_job_or_of_an_earlier_life_holds_nothing,
            a_release_ends_the_hold,
            a_change_ends_the_hold_of_a_consumer_whose_ttr_expired,
            a_lapsed_job_that_dies_by_a_release_keeps_its_due_time,
            what_is_given_back_was_never_popped,
            every_reserved_job_is_listed_with_its_holder_in_steps;
        schedule:
            a_job_is_ready_at_its_due_time_and_not_before,
            a_past_due_time_is_now_and_one_too_far_is_refused,
            jobs_come_in_the_order_of_their_due_times,
            an_expired_ttr_waits_its_backoff_counted_from_the_deadline,
            a_release_without_a_delay_waits_the_backoff,
            attempts_are_counted_and_spent,
            the_dead_are_kept_for_their_retention_and_then_gone,
            a_touch_moves_the_deadline,
            a_pop_can_set_another_ttr_for_itself_alone,
            the_next_deadline_is_never_reported_too_late,
            the_next_deadline_after_a_batch_is_its_earliest,
            no_time_is_shorter_than_asked_by_a_part_of_a_millisecond,
            promoting_goes_in_bounded_steps;
        batches:
            replies_stay_in_order_between_refused_jobs,
            a_batch_acts_on_jobs_wherever_they_are_by_now,
            a_call_to_several_buckets_does_its_part_in_each,
            the_same_id_twice_in_one_batch_is_one_job,
            a_living_id_is_refused_kept_or_replaced,
            only_a_job_of_the_same_topic_is_kept_or_replaced,
            a_release_by_id_alone_takes_only_what_is_reserved,
            a_get_shows_everything_that_was_put,
            bodies_are_kept_byte_for_byte,
            several_wants_in_one_call_get_different_jobs,
            a_reschedule_changes_what_it_names_and_nothing_else,
            a_new_list_of_waits_brings_its_own_max_attempts;
        finished:
            a_kept_job_has_its_end_and_no_body_until_its_time_is_over,
            a_job_without_a_retention_is_gone_with_its_finish,
            the_first_result_stays_when_a_finish_is_repeated,
            a_finished_job_is_refused_to_everyone_else,
            a_result_that_nothing_would_keep_is_refused,
            a_late_finish_keeps_a_job_in_every_state,
            a_finished_job_can_be_changed_by_nothing,
            results_of_any_size_are_kept_and_leave_nothing_behind;
        finished_many:
            a_batch_finishes_jobs_that_are_kept_and_others,
            finished_jobs_count_in_the_store_and_not_in_their_topic,
            finished_jobs_are_listed_by_the_end_of_their_retention,
            finished_jobs_are_forgotten_after_everything_else,
            finished_jobs_of_many_topics_delay_no_other,
            forgetting_takes_no_budget_from_delayed_jobs,
            restored_jobs_are_finished_as_they_were;
        remembered:
            a_finished_id_is_refused_kept_or_replaced,
            a_put_that_is_retried_after_the_finish_runs_nothing,
            a_remembered_delete_takes_the_id_in_every_state,
            a_remembered_id_is_free_after_its_time,
            a_finished_job_can_be_deleted_and_remembered,
            a_delete_in_excluded_states_remembers_nothing;
        history:
            each_end_of_an_attempt_is_in_the_history,
            an_expired_ttr_shows_before_and_after_a_restart,
            a_kept_job_shows_its_attempts_and_the_finish,
            a_late_end_replaces_the_entry_of_the_expired_ttr,
            an_end_by_id_alone_leaves_the_entry_of_an_attempt_that_ended,
            a_pop_that_is_given_back_leaves_no_entry,
            the_last_ten_attempts_are_kept,
            a_long_error_is_cut_between_characters,
            a_touch_keeps_the_start_of_the_attempt,
            a_kick_keeps_the_history_and_a_replace_empties_it,
            a_named_consumer_shows_while_it_holds_the_job,
            a_restored_job_has_the_history_that_it_had;
        restore:
            a_job_is_in_another_store_what_it_was_in_this,
            a_restored_reservation_still_holds_and_its_ttr_runs_out,
            a_lapsed_restored_job_is_finished_by_its_reservation,
            the_restored_dead_can_be_kicked_or_go_after_their_retention,
            a_living_id_is_not_restored_and_the_others_are;
        topics:
            a_topic_appears_with_its_first_job_and_goes_with_its_last,
            counts_are_exact_in_every_state,
            a_delayed_job_that_should_be_ready_is_reported_with_its_age,
            delayed_jobs_are_listed_and_counted_by_due_time,
            topics_come_in_the_order_of_their_names_page_by_page,
            pages_of_jobs_neither_skip_nor_repeat_those_that_stay,
            a_listed_job_is_shown_as_a_get_shows_it,
            a_purge_takes_one_state_in_bounded_steps,
            kicking_the_dead_takes_those_that_died_first,
            what_is_set_for_topics_is_kept_and_has_a_version,
            a_change_of_settings_names_exactly_its_topics,
            a_pause_ends_at_its_time_and_no_other_pause_with_it,
            each_job_is_kept_dead_as_long_as_it_was_put_with;
        tokens:
            tokens_are_made_listed_and_revoked_each_by_its_name,
            the_first_token_is_one_of_an_administrator,
            tokens_are_read_again_only_when_one_is_made_or_revoked,
            tokens_outlive_the_server,
            a_revocation_whose_caller_has_gone_is_news_all_the_same,
            a_job_of_a_topic_out_of_reach_is_not_read;
        usage:
            a_page_of_large_jobs_ends_early_and_the_next_goes_on,
            usage_of_a_topic_is_the_sum_of_its_bodies,
            the_store_tells_how_many_jobs_it_has_and_what_they_take;
        concurrency:
            many_poppers_and_one_job_have_one_winner,
            two_promoters_and_many_poppers_deliver_each_job_once,
            one_of_many_puts_of_the_same_id_wins,
            counts_equal_a_scan_after_a_hundred_thousand_random_calls,
            a_job_that_is_deleted_and_put_again_is_delivered_once;
    }
}
