-- The time of the call, and due times.

local TEN_YEARS = 315576000000
-- The time in microseconds. Deadlines are compared with NOW (rounded down to milliseconds), and new deadlines count from
-- NOW_UP (rounded up); clock.rs explains why.
local CLOCK_MICROS
if CALL[1] == '' then
  local time = redis.call('TIME')
  CLOCK_MICROS = time[1] * 1000000 + time[2]
else
  CLOCK_MICROS = CALL[1] * 1000
end
local NOW_MICROS = CLOCK_MICROS
local NOW, NOW_UP = math.floor(NOW_MICROS / 1000), math.ceil(NOW_MICROS / 1000)

-- The clock in microseconds or, after it has jumped, the time that the caller believes (store/clock_watch.rs). The
-- caller sends '<latest time without a jump> <time to believe after a jump>' in ms, or '' before it knows any.
local function believed(text)
  local latest, expected = string.match(text, '^(%d+) (%d+)$')
  if not latest or CLOCK_MICROS <= tonumber(latest) * 1000 then return CLOCK_MICROS end
  return tonumber(expected) * 1000
end

-- The due time of a schedule, '+<delay in ms>' or '@<unix ms> <see believed()>', and the state of a job with that due
-- time; nil if it is more than ten years ahead. An absolute due time is compared with the believed time, not with the
-- raw clock.
local function due_time(schedule)
  local delay = string.match(schedule, '^%+(%d+)$')
  if delay == '0' then return NOW, 'ready' end
  if delay then return NOW_UP + tonumber(delay), 'delayed' end
  local text, clock = string.match(schedule, '^@(%d+) (.*)$')
  local time, now = tonumber(text), math.floor(believed(clock) / 1000)
  if time - now > TEN_YEARS then return nil end
  if time > now then return time, 'delayed' end
  return now, 'ready'
end
