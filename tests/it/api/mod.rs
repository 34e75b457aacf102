//! Tests of the API over real HTTP. The server runs in this process on a free port. There is one
//! file per behaviour.
//!
//! All cases run on files. The contract of the stores (`tests/it/store`) holds on each store, so
//! only cases whose answers need more of Redis than the contract tests run there too.

mod acknowledged;
mod answer;
mod bad_input;
mod batches;
mod broken_keys;
mod damaged;
mod dashboard;
mod dead_to;
mod deliveries;
mod expired;
mod expiry;
mod filters;
mod finished;
mod full_redis;
mod headers;
mod history;
mod job_waits;
mod lost_answers;
mod matrix;
mod metrics;
mod node_down;
mod operations;
mod polling;
mod prelude;
mod priority;
mod push;
mod push_breakers;
mod push_callers;
mod push_memory;
mod push_reports;
mod put_and_pop;
mod replaced;
mod reservations;
mod restarted;
mod revoked;
mod rights;
mod round_trip;
mod schedules;
mod schedules_on_redis;
mod server;
mod several_servers;
mod slots;
mod snooze;
mod store_unavailable;
mod topics;
mod traces;
mod unreadable;
mod unsafe_redis;
mod unwritable;
mod urgent;
mod waiting;
mod web_pages;

on_each_store! {
    { on_file: super::server::Server::on_file().await }
    {
        put_and_pop:
            a_job_is_put_popped_and_finished,
            a_job_arrives_when_it_is_due_and_not_before,
            generated_ids_increase,
            a_body_comes_back_byte_for_byte,
            every_route_is_served_under_v1_too,
            a_job_can_be_read_and_deleted_in_any_state,
            a_living_id_is_refused_kept_or_replaced;
        finished:
            a_kept_job_shows_its_result_and_no_body,
            a_retried_put_of_a_finished_job_creates_no_second_job,
            a_finish_can_be_repeated_only_with_its_reservation,
            a_refused_result_changes_nothing,
            a_finished_job_refuses_other_actions,
            a_deleted_id_stays_taken_if_it_is_remembered,
            finished_jobs_are_counted_listed_and_purged,
            a_batch_of_finishes_keeps_results_by_job,
            a_topic_keeps_finished_jobs_unless_a_put_overrides_it,
            a_wait_ends_with_the_result;
        deliveries:
            a_pushed_job_is_posted_with_its_headers_and_finished,
            the_answer_decides_what_happens_to_the_job,
            a_batch_has_a_verdict_for_each_job,
            a_paused_push_or_topic_sends_nothing,
            an_address_that_is_not_allowed_is_never_reached,
            jobs_wait_while_the_endpoint_is_down;
        push_callers:
            secret_headers_are_sent_and_never_shown,
            a_token_that_has_set_something_is_not_revoked_silently,
            tests_of_one_caller_hold_up_no_other;
        push_breakers:
            a_push_that_is_refused_does_not_slow_its_neighbours,
            a_request_on_a_closed_connection_costs_no_attempt,
            a_deleted_push_leaves_no_target;
        push_reports:
            a_report_that_cannot_be_read_finishes_no_job,
            a_test_warns_of_an_answer_that_accepts_nothing;
        traces:
            a_job_gives_its_consumers_the_traceparent_of_its_put;
        history:
            a_job_shows_its_attempts_with_the_running_one_last,
            a_shown_history_can_be_sent_back_and_not_changed;
        headers:
            headers_reach_every_consumer_and_change_by_patch;
        priority:
            jobs_are_popped_by_priority_and_then_due_time,
            a_change_moves_a_job_between_priorities,
            lists_and_filters_work_across_priorities,
            the_oldest_ready_job_may_be_of_any_priority;
        schedules:
            a_schedule_is_set_shown_sent_back_and_deleted,
            each_instant_puts_one_job_at_its_time,
            a_bad_timing_is_refused_by_its_field,
            a_preview_shows_the_next_instants_and_words,
            a_paused_schedule_puts_nothing_unless_it_is_run,
            another_put_keeps_the_next_instant_of_the_same_timing,
            an_instant_is_skipped_while_the_last_job_runs,
            a_job_of_a_client_suppresses_no_instant,
            an_instant_is_put_if_the_last_job_has_left_the_topic,
            an_instant_waits_for_the_last_job_and_the_last_run,
            each_concurrent_run_is_a_job_of_its_own,
            only_a_token_with_read_sees_what_jobs_contain,
            a_jitter_delays_each_job_within_its_bounds,
            schedules_are_listed_by_name_prefix_and_topic,
            a_token_sees_only_schedules_of_its_topics;
        push:
            a_push_is_set_shown_and_removed,
            a_push_can_be_sent_back_as_a_get_showed_it,
            secrets_of_a_push_stay_until_they_are_replaced,
            only_a_stored_authorization_can_be_kept,
            a_pause_of_a_push_lasts_until_it_is_resumed,
            a_test_of_a_push_shows_its_request_and_its_answer,
            a_topic_with_a_push_is_listed_with_it,
            a_bad_push_is_refused_by_its_field,
            a_bad_secret_is_refused_and_never_repeated;
        expiry:
            a_put_sets_the_expiry_of_its_job,
            a_change_sets_the_expiry_again;
        expired:
            a_job_expires_while_no_consumer_holds_it,
            a_job_whose_next_attempt_would_be_too_late_dies_at_once,
            no_pop_returns_an_expired_job,
            a_pop_without_a_wait_finds_a_job_behind_expired_ones;
        dead_to:
            a_job_that_dies_moves_to_the_topic_that_its_topic_names,
            a_retried_put_keeps_a_job_that_has_moved,
            a_job_follows_one_step_of_a_chain_of_topics,
            a_moved_job_can_be_sent_back_as_a_get_showed_it,
            dead_to_is_shown_and_removed_by_null,
            a_circle_of_topics_is_refused;
        snooze:
            an_uncounted_release_does_not_use_up_an_attempt,
            a_release_may_give_the_job_another_body,
            a_batch_of_releases_has_options_for_each_job,
            a_bad_release_changes_nothing;
        reservations:
            a_job_is_ready_after_its_ttr_and_refuses_its_old_consumer,
            actions_by_id_alone_work_as_in_the_original_design,
            a_reservation_may_stand_in_the_query,
            reservations_of_one_pop_cannot_be_derived_from_each_other,
            a_job_is_buried_kicked_and_rescheduled;
        replaced:
            a_store_without_a_loss_has_nothing_to_accept;
        matrix:
            every_route_answers_each_scope_as_the_table_says,
            a_change_shows_no_body_to_a_token_that_may_not_read,
            an_id_of_a_forbidden_topic_reveals_and_changes_nothing;
        revoked:
            the_token_must_be_valid_when_the_body_is_complete,
            a_waiting_pop_gets_no_job_once_its_token_is_invalid,
            a_wait_for_a_job_ends_once_its_token_is_invalid;
        batches:
            each_job_of_a_batch_has_its_own_result,
            a_batch_buries_changes_and_kicks_each_job_by_itself,
            batches_put_pop_and_finish_a_thousand_jobs;
        job_waits:
            a_wait_for_a_job_ends_when_it_is_dead_or_gone,
            a_wait_for_a_job_ends_by_its_last_ttr_or_a_purge,
            a_wait_returns_the_job_in_its_final_state,
            a_stopping_server_ends_waits_for_jobs;
        waiting:
            a_waiting_pop_is_answered_by_a_put,
            an_ended_wait_is_answered_without_jobs,
            a_pop_of_many_topics_makes_one_call_a_server,
            earlier_topics_come_first,
            a_hundred_waiting_pops_share_a_thousand_jobs,
            a_client_that_disconnects_costs_no_consumer_a_job;
        unreadable:
            an_unreadable_body_is_refused_alone,
            a_body_may_be_nested_128_deep_however_it_is_put,
            odd_text_is_refused_by_field_or_kept;
        bad_input:
            a_bad_field_is_refused_by_its_name_in_every_request,
            bad_parameters_are_refused_by_name,
            a_bad_id_or_topic_in_the_path_is_refused,
            a_body_over_the_limit_is_refused_however_it_is_sent,
            a_bad_batch_is_refused,
            an_unknown_id_or_a_wrong_reservation_is_refused;
        round_trip:
            null_means_absent_in_every_request,
            a_job_can_be_sent_back_as_a_get_showed_it,
            null_removes_a_backoff_and_nothing_else,
            a_topic_can_be_sent_back_as_a_get_showed_it,
            a_problem_names_the_full_path_of_a_field;
        topics:
            topics_are_listed_with_exact_counts,
            jobs_are_listed_and_counted_by_due_time,
            the_overview_describes_all_topics,
            jobs_are_paged_through_by_state,
            a_topic_with_settings_is_listed_without_jobs,
            a_page_of_jobs_may_have_a_thousand,
            a_paused_topic_accepts_jobs_and_delivers_none,
            a_pause_for_a_time_ends_by_itself,
            the_last_errors_are_reported_with_their_jobs,
            a_purge_removes_jobs_that_change_their_state_meanwhile,
            a_topic_has_defaults_for_omitted_fields;
        filters:
            a_list_shows_only_jobs_that_match,
            dead_jobs_are_counted_by_error,
            a_page_examines_at_most_ten_thousand_jobs,
            a_cursor_belongs_to_its_filters,
            a_kick_takes_the_dead_that_match,
            a_purge_takes_only_jobs_that_match,
            a_dry_run_changes_nothing;
        dashboard:
            the_server_serves_the_page_and_everything_that_it_loads,
            the_pages_load_no_other_files_need_no_token_and_are_cached,
            a_404_is_a_page_for_browsers_and_a_problem_for_programs;
        operations:
            health_and_readiness_are_reported,
            every_answer_has_a_request_id,
            every_json_answer_ends_with_a_newline,
            unknown_routes_and_wrong_methods_are_problems_too,
            a_head_request_pops_nothing;
        metrics:
            requests_are_counted_by_route_method_and_status,
            a_request_of_a_disconnected_client_is_counted,
            jobs_are_counted_by_topic_state_and_event,
            topics_beyond_the_limit_are_summed_up_without_losing_jobs,
            metrics_are_sent_in_the_requested_format;
    }
}

// Scripts, several buckets, filters, moves, rights, hints, and texts in and out of Lua.
on_each_store! {
    { on_redis: super::server::Server::on_redis().await }
    {
        put_and_pop:
            a_job_is_put_popped_and_finished, a_job_arrives_when_it_is_due_and_not_before,
            a_living_id_is_refused_kept_or_replaced;
        finished:
            a_retried_put_of_a_finished_job_creates_no_second_job,
            finished_jobs_are_counted_listed_and_purged, a_batch_of_finishes_keeps_results_by_job,
            a_wait_ends_with_the_result;
        deliveries:
            the_answer_decides_what_happens_to_the_job;
        history:
            a_job_shows_its_attempts_with_the_running_one_last;
        priority:
            jobs_are_popped_by_priority_and_then_due_time, lists_and_filters_work_across_priorities;
        schedules:
            each_instant_puts_one_job_at_its_time, an_instant_is_skipped_while_the_last_job_runs,
            schedules_are_listed_by_name_prefix_and_topic;
        push:
            secrets_of_a_push_stay_until_they_are_replaced;
        expired:
            a_job_expires_while_no_consumer_holds_it,
            a_pop_without_a_wait_finds_a_job_behind_expired_ones;
        dead_to:
            a_job_that_dies_moves_to_the_topic_that_its_topic_names,
            a_retried_put_keeps_a_job_that_has_moved, a_circle_of_topics_is_refused;
        snooze:
            an_uncounted_release_does_not_use_up_an_attempt,
            a_batch_of_releases_has_options_for_each_job;
        reservations:
            a_job_is_ready_after_its_ttr_and_refuses_its_old_consumer,
            a_job_is_buried_kicked_and_rescheduled;
        matrix:
            every_route_answers_each_scope_as_the_table_says,
            an_id_of_a_forbidden_topic_reveals_and_changes_nothing;
        revoked:
            a_waiting_pop_gets_no_job_once_its_token_is_invalid;
        batches:
            each_job_of_a_batch_has_its_own_result,
            a_batch_buries_changes_and_kicks_each_job_by_itself,
            batches_put_pop_and_finish_a_thousand_jobs;
        job_waits:
            a_wait_for_a_job_ends_when_it_is_dead_or_gone,
            a_wait_for_a_job_ends_by_its_last_ttr_or_a_purge;
        waiting:
            a_waiting_pop_is_answered_by_a_put, a_hundred_waiting_pops_share_a_thousand_jobs,
            a_client_that_disconnects_costs_no_consumer_a_job;
        unreadable:
            odd_text_is_refused_by_field_or_kept;
        round_trip:
            a_topic_can_be_sent_back_as_a_get_showed_it;
        topics:
            topics_are_listed_with_exact_counts, jobs_are_paged_through_by_state,
            a_paused_topic_accepts_jobs_and_delivers_none,
            a_purge_removes_jobs_that_change_their_state_meanwhile;
        filters:
            a_page_examines_at_most_ten_thousand_jobs, a_kick_takes_the_dead_that_match,
            a_purge_takes_only_jobs_that_match;
        metrics:
            jobs_are_counted_by_topic_state_and_event,
            topics_beyond_the_limit_are_summed_up_without_losing_jobs;
    }
}

// Calls that several slots answer together.
on_each_store! {
    { on_cluster: super::server::Server::on_cluster().await }
    {
        put_and_pop:
            a_job_is_put_popped_and_finished, a_job_arrives_when_it_is_due_and_not_before;
        deliveries:
            the_answer_decides_what_happens_to_the_job;
        schedules:
            each_instant_puts_one_job_at_its_time;
        dead_to:
            a_job_that_dies_moves_to_the_topic_that_its_topic_names;
        matrix:
            every_route_answers_each_scope_as_the_table_says;
        batches:
            each_job_of_a_batch_has_its_own_result, batches_put_pop_and_finish_a_thousand_jobs;
        waiting:
            a_hundred_waiting_pops_share_a_thousand_jobs;
        topics:
            topics_are_listed_with_exact_counts, jobs_are_paged_through_by_state,
            a_purge_removes_jobs_that_change_their_state_meanwhile;
        filters:
            a_kick_takes_the_dead_that_match;
        metrics:
            jobs_are_counted_by_topic_state_and_event;
    }
}
