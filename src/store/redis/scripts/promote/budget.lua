-- How many jobs a promotion may act on.
--
-- Many due jobs in one set must not delay the jobs of other sets. While other sets remain, in this bucket or in a later
-- one of the call, a set gets half of the remaining budget. Delayed jobs come first and leave a quarter of the bucket's
-- budget for the other sets; these leave an eighth of the whole budget for later buckets. Finished jobs come last in
-- their bucket and leave seven eighths for later buckets.

-- The work of one job, measured in moves between sets. Loading a job for a decision and writing that takes as much time as
-- four moves; for a job that expires as much as eight, because its set must be found first.
local WORK = { delayed = 1, reserved = 4, expiring = 8, dead = 4, finished = 4 }
-- unpack takes a few thousand values.
local MOST_JOBS, MOST_WORK = 1000, 1000
-- The remaining numbers of jobs and of work, and how much of both delayed, finished and other jobs leave for later sets.
local jobs_left, work_left, kept_by_delayed, kept_by_finished, kept_by_others

-- A bucket begins with the budget that the previous bucket has left.
local function begin_budget(limit, has_others)
  limit = math.min(limit, MOST_JOBS)
  jobs_left, work_left = shared.jobs_left or limit, shared.work_left or MOST_WORK
  local none = { jobs = 0, work = 0 }
  kept_by_delayed = has_others and { jobs = math.floor(jobs_left / 4), work = work_left / 4 } or none
  kept_by_others = FOLLOWING > 0 and { jobs = math.floor(limit / 8), work = MOST_WORK / 8 } or none
  kept_by_finished = FOLLOWING > 0 and { jobs = math.floor(limit * 7 / 8), work = MOST_WORK * 7 / 8 } or none
end

-- Maximum number of jobs of the next set, which may be the last of the call.
local function budget_of(state, is_last)
  local kept = state == 'delayed' and kept_by_delayed or state == 'finished' and kept_by_finished or kept_by_others
  local jobs = math.min(jobs_left - kept.jobs, math.floor((work_left - kept.work) / WORK[state]))
  return is_last and jobs or math.ceil(jobs / 2)
end

local function spend(state, jobs)
  jobs_left, work_left = jobs_left - jobs, work_left - jobs * WORK[state]
end

local function end_budget()
  shared.jobs_left, shared.work_left = jobs_left, work_left
end
