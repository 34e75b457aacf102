-- reserved -> reserved, with a deadline one TTR from now.
-- ARGV  for each job: id, reservation ('' acts by id alone), TTR in ms ('' for the current one), the two times of the caller
--       for believed()
-- Reply for each job: the end of the TTR, or refusal

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/each_job"

-- The time from which a touch counts, for a reservation with this deadline; nil if the reservation has ended. After a jump
-- of the clock, an earlier reservation uses the believed time until the clock is steady: see store/clock_watch.rs.
local function time_for(deadline, belief)
  if deadline > NOW then return NOW_UP end
  local time = math.floor(believed(belief) / 1000)
  return deadline > time and time or nil
end

-- Saves the start of the attempt: otherwise it is computed from the deadline, which the touch moves.
local function keep_start(id, text, attempt, deadline)
  local history = read_history(id, text, attempt.reservation)
  if history.started ~= '-' then return end
  local start = math.max(0, deadline - attempt.ttr)
  history.reservation, history.started = attempt.reservation, string.format('%d', start)
  save('history', id, format_history(id, history))
end

local function transition()
  local reply = {}
  each_job(4, function(id, text, i)
    local attempt, refusal = authorize(text, id, ARGV[i + 1])
    local deadline = attempt and redis.call('ZSCORE', key('reserved', attempt.topic), id)
    local now = deadline and time_for(tonumber(deadline), ARGV[i + 3])
    if now then
      local ttr = tonumber(ARGV[i + 2]) or attempt.ttr
      keep_start(id, text, attempt, tonumber(deadline))
      if ttr ~= attempt.ttr or not may_have_history(text) then
        attempt.ttr, attempt.mark = ttr, 'h'
        save('attempt', id, format_attempt(attempt))
      end
      join_set('reserved', attempt.topic, id, now + ttr)
      reply[#reply + 1] = now + ttr
    else
      reply[#reply + 1] = refusal or RESERVATION_LOST
    end
  end)
  return reply
end

--- @include "shared/guard"
--- @include "shared/each_bucket"
