-- Scores of the topics' sorted sets, with room for a priority from 0 to 9; 4 is the default:
--
--   delayed          due time + ((priority - 4) mod 10) / 16
--   ready            due time + (4 - priority) * 2^43, so higher priorities come first
--   dead             end of the retention, + 1/2 if a kick must read the job's policy
--   all others       deadline
--
-- A job of priority 4 has its plain time as its score in every state. Promotion derives the ready score from the
-- delayed score without reading the record. Times stay below 2^43 ms until the year 2248. Mirrored in score.rs.
local PRIORITY_STEP, STANDARD_PRIORITY = 8796093022208, 4

-- Returns the lowest score of a state, and the end of its range (exclusive).
local function score_range(state)
  if state == 'ready' then return -5 * PRIORITY_STEP, 5 * PRIORITY_STEP end
  return 0, 1e14
end

local function is_score(state, score)
  local value, lowest, end_of_range = tonumber(score), score_range(state)
  return value and value >= lowest and value < end_of_range
end

-- Returns the score of a job with this policy (parse_policy).
local function score_of(state, time, policy)
  local above_standard = policy.priority - STANDARD_PRIORITY
  if state == 'ready' then return time - above_standard * PRIORITY_STEP end
  if state == 'delayed' then return time + above_standard % 10 / 16 end
  if state == 'dead' and (above_standard ~= 0 or policy.expires_after) then return time + 0.5 end
  return time
end

-- Returns the score as text for Redis, with all its digits.
local function score_text(score)
  return string.format(score % 1 == 0 and '%d' or '%.4f', score)
end

-- Returns the priority in the score of a ready job.
local function priority_of_ready(score)
  return math.max(0, math.min(9, STANDARD_PRIORITY - math.floor(score / PRIORITY_STEP)))
end

-- Returns the time in a score; NOW if the score is outside its range, because another program wrote it.
local function time_of(state, score)
  if not is_score(state, score) then return NOW end
  if state == 'ready' then return math.floor(score % PRIORITY_STEP) end
  return math.floor(score)
end
