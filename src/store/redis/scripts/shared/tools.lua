-- jobs.lua for the scripts that are called most often. To create a function takes a good part of the time of a Redis
-- command, so these scripts create the functions of jobs.lua once a call, and only when a job needs them.

local function make_tools()
--- @include "shared/jobs"
  return {
    find_job = find_job, locate_job = locate_job, state_of = state_of, search_topics = search_topics,
    authorize = authorize, may_have_history = may_have_history, with_consumer = with_consumer,
    end_attempt = end_attempt, parse_attempt = parse_attempt, parse_rules = parse_rules,
    rules_of_damaged = rules_of_damaged, keep_finished = keep_finished, leave_set = leave_set, join_set = join_set,
    commit = commit, topic_shrinks = topic_shrinks, register_topic = register_topic, save = save, erase = erase
  }
end

local made
local function tools()
  made = made or make_tools()
  return made
end
