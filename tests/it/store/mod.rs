//! Tests of every store against its contract and the state table. One suite of async functions runs
//! on each store, with the time passed in.

mod batches;
pub mod bench;
pub mod calls;
mod concurrency;
pub mod damage;
pub mod equivalence;
mod expiry;
mod file_bytes;
mod file_damaged;
mod file_only;
mod finished;
mod finished_many;
mod finished_redis;
mod history;
mod matching;
mod model;
mod moving;
mod overdue_redis;
mod prelude;
mod promoting;
mod redis_costs;
mod redis_only;
mod redis_rights;
mod redis_scripts;
mod remembered;
mod reservations;
pub mod restore;
mod schedule;
mod schedules;
mod table;
mod tokens;
mod topics;
mod usage;
mod walk;
pub mod workload;

on_each_store! {
    {
        on_file: super::bench::Bench::file().await,
        on_redis: super::bench::Bench::shared_redis().await,
        on_cluster: super::bench::Bench::cluster().await,
    }
    {
        table:
            every_event_in_every_state_does_what_the_table_says,
            a_delete_leaves_a_job_in_a_state_that_it_excludes,
            every_event_without_a_job_does_what_the_table_says;
        matching:
            a_filter_selects_by_what_a_get_shows,
            a_purge_by_a_filter_takes_what_matches_and_no_more,
            a_step_examines_a_bounded_number_of_jobs;
        reservations:
            actions_by_id_alone_need_a_popped_job,
            a_second_pop_ends_the_first_reservation,
            an_expired_reservation_cannot_be_touched,
            a_release_ends_the_reservation,
            a_change_ends_the_reservation_of_an_expired_ttr,
            a_lapsed_job_that_dies_by_a_release_keeps_its_due_time,
            a_job_that_is_given_back_was_never_popped,
            every_reserved_job_is_listed_with_its_holder_in_steps;
        schedule:
            a_job_is_ready_at_its_due_time_and_not_before,
            a_past_due_time_is_now_and_one_too_far_is_refused,
            an_expired_ttr_waits_its_backoff_counted_from_the_deadline,
            a_release_without_a_delay_waits_the_backoff,
            attempts_are_counted_and_spent,
            dead_jobs_are_kept_for_their_retention,
            a_touch_moves_the_deadline,
            a_pop_can_set_another_ttr_for_its_attempt,
            the_next_deadline_is_never_reported_too_late,
            the_next_deadline_after_a_batch_is_its_earliest,
            no_wait_is_shorter_by_a_part_of_a_millisecond,
            promoting_goes_in_bounded_steps;
        batches:
            a_batch_acts_on_jobs_that_have_changed_their_state,
            a_call_to_several_buckets_takes_effect_in_each,
            the_same_id_twice_in_one_batch_is_one_job,
            a_living_id_is_refused_kept_or_replaced,
            only_a_job_of_the_same_topic_is_kept_or_replaced,
            a_release_by_id_alone_needs_a_reserved_job,
            bodies_are_kept_byte_for_byte,
            several_pop_requests_in_one_call_get_different_jobs,
            a_new_list_of_waits_sets_max_attempts;
        finished:
            the_first_result_stays_when_a_finish_is_repeated,
            a_finished_job_refuses_other_reservations,
            results_of_any_size_are_kept_and_removed_completely;
        finished_many:
            a_batch_finishes_jobs_with_and_without_retention,
            finished_jobs_are_listed_by_the_end_of_their_retention,
            finished_jobs_of_many_topics_do_not_delay_other_jobs,
            forgetting_takes_no_budget_from_delayed_jobs,
            restored_finished_jobs_keep_their_endings;
        remembered:
            a_put_retried_after_the_finish_creates_no_job,
            a_remembered_id_is_free_after_its_time;
        history:
            each_end_of_an_attempt_is_in_the_history,
            a_late_end_replaces_the_entry_of_the_expired_ttr,
            an_end_by_id_alone_leaves_the_entry_of_an_attempt_that_ended,
            the_last_ten_attempts_are_kept,
            a_long_error_is_cut_between_characters,
            a_touch_keeps_the_start_of_the_attempt,
            a_kick_keeps_the_history_and_a_replace_empties_it,
            a_named_consumer_is_shown_while_it_holds_the_job;
        restore:
            a_restored_job_equals_the_job_of_the_other_store,
            an_existing_id_is_not_restored_and_the_others_are;
        expiry:
            a_pop_gets_a_job_until_the_millisecond_at_which_it_expires,
            a_promote_ends_a_job_at_the_millisecond_at_which_it_expires,
            a_job_whose_next_attempt_would_be_too_late_is_dead,
            a_pop_finds_a_job_behind_many_that_have_expired;
        moving:
            each_way_to_die_moves_a_job_with_all_that_it_has,
            what_a_pop_ends_is_ready_in_other_topics,
            a_moved_job_keeps_its_error_when_a_pop_is_given_back,
            a_moved_job_is_the_same_after_a_restart,
            the_dead_of_several_topics_move_in_one_call;
        topics:
            a_topic_exists_from_its_first_to_its_last_job,
            counts_are_exact_in_every_state,
            a_delayed_job_that_should_be_ready_is_reported_with_its_age,
            delayed_jobs_are_counted_by_due_time,
            topics_come_in_the_order_of_their_names_page_by_page,
            pages_neither_skip_nor_repeat_remaining_jobs,
            a_purge_removes_one_state_in_bounded_steps,
            topic_settings_are_kept_and_have_a_version,
            a_change_of_settings_names_exactly_its_topics,
            a_push_is_kept_like_other_settings,
            a_pause_ends_at_its_time_without_ending_others;
        schedules:
            a_schedule_changes_only_if_it_has_the_expected_text,
            changes_of_one_call_follow_each_other,
            due_schedules_come_earliest_first_with_the_time_of_the_next,
            a_look_at_due_schedules_ends_after_a_number_of_bytes,
            a_page_of_schedules_ends_after_a_number_of_bytes,
            schedules_are_listed_by_name_in_pages,
            a_firing_puts_the_job_and_advances_the_schedule,
            a_firing_changes_nothing_if_its_id_is_in_use,
            a_taken_id_does_not_hold_up_the_other_firings,
            an_outdated_firing_does_not_advance_the_schedule,
            one_of_many_concurrent_firings_of_an_instant_succeeds,
            many_schedules_fire_in_one_call;
        tokens:
            tokens_are_made_listed_and_revoked_each_by_its_name,
            the_first_token_must_have_the_scope_admin,
            tokens_are_read_again_only_when_one_is_made_or_revoked,
            a_revocation_is_seen_even_if_its_caller_has_gone,
            a_job_of_a_forbidden_topic_is_not_read;
        usage:
            a_page_of_large_jobs_ends_early_and_the_next_continues,
            usage_of_a_topic_is_the_sum_of_its_bodies,
            the_store_reports_its_number_of_jobs_and_its_size;
        concurrency:
            one_of_many_concurrent_pops_gets_the_only_job,
            two_promoters_and_many_poppers_deliver_each_job_once,
            one_of_many_puts_of_the_same_id_wins,
            a_put_beside_a_delete_comes_before_or_after_it,
            each_of_several_changes_of_one_job_succeeds,
            one_of_two_ends_of_an_attempt_counts,
            a_touch_beside_a_release_neither_stops_nor_undoes_it,
            counts_equal_a_scan_after_a_hundred_thousand_random_calls;
    }
}
