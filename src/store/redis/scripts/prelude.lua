-- What every transition shares: prepended to each script, so that it is one text to Redis.
--
-- A call does the same transition in some buckets of one server. The script's own part is a
-- function that each_bucket.lua calls for each of them; a bucket that fails leaves the others alone.
--
-- KEYS  of each bucket: pool, attempts, bucket, topics, bodies, and a key that never exists. The topics' sorted
--       sets are named from the pool's tag, so all keys of a bucket lie in one slot. keys.rs says what each holds.
--       While a cluster moves the slot to another node, reaching for a key that is there already
--       (or nowhere) fails in the middle of a script, and what was written before stays. With a
--       missing key among its KEYS, Redis refuses to begin it.
-- ARGV  1 now in ms, or '' for the clock of this Redis. Then the arguments of each bucket, and last
--       of each bucket how many those are. The own part sees now as ARGV[1], and its bucket's behind it.
-- Reply of each bucket: what the own part answers, or an error; then nothing was written there.
--
-- A job is in exactly one of its topic's four sorted sets: that is its state. Scripts read and
-- check first and write last (`commit`). No script throws once it has written: what it needs of a record is
-- read and computed before, and what it writes to is known to be of the right type.
--
-- A user may lose the right to a command at any time, and what a script wrote before it meets that stays. So each
-- command that takes something away first runs once where it changes nothing (a member or field '' never exists),
-- and a job joins its new set before it leaves the old one. The first of these commands needs no memory: a full
-- Redis refuses a script only at its first write.
--
-- Records, whose form codec.rs tells, are checked where a script acts on them. One that cannot be
-- read costs the job its attempts or sets it aside, and the others go on.

local CALL, ARGV = ARGV, nil
local POOL, ATTEMPTS, BUCKET, TAG
-- How many buckets of the call come after this one.
local FOLLOWING
-- The names of topics that have jobs in this bucket; bodies that are too long for their records.
local TOPICS, BODIES
-- What the buckets of a call have together: budgets.
local shared = {}
-- Forgets what a bucket that failed has gathered (moves.lua).
local forget = function() end

-- Refusals, below zero; states, above. Mirrored in reply.rs.
local NOT_FOUND, EXISTS, RESERVATION_LOST, NEVER_POPPED = -1, -2, -3, -4
local RESERVED, DEAD, DUE_TOO_FAR, NOT_RESERVED, UNREADABLE = -5, -6, -7, -8, -9
local STATE_CODE = { delayed = 1, ready = 2, reserved = 3, dead = 4 }
local TEN_YEARS = 315576000000
-- A longer body is in BODIES. Mirrored in codec.rs.
local INLINE = 4096
-- Rules in a record: captures the length of the body, the policy, the topic. See records.lua.
local RULES = '%x+ (%d+) (%S*) (%S+)\n'
-- So many bytes of bodies make a call long enough.
local ENOUGH = 524288

-- What has come is judged by NOW, what is to come is counted from NOW_UP (see clock.rs).
local CLOCK_MICROS
if CALL[1] == '' then
  local time = redis.call('TIME')
  CLOCK_MICROS = time[1] * 1000000 + time[2]
else
  CLOCK_MICROS = CALL[1] * 1000
end
local NOW_MICROS = CLOCK_MICROS
local NOW, NOW_UP = math.floor(NOW_MICROS / 1000), math.ceil(NOW_MICROS / 1000)

-- The clock in microseconds, or after a jump the time that the caller believes (store/steady.rs). The caller sends the
-- latest time in ms that is no jump, and the one that holds after a jump; '' before it knows any.
local function believed(text)
  local latest, expected = string.match(text, '^(%d+) (%d+)$')
  if not latest or CLOCK_MICROS <= tonumber(latest) * 1000 then return CLOCK_MICROS end
  return tonumber(expected) * 1000
end

-- The text of an error, which begins with its code. Since Redis 7.2 an error is a table; Redis 7.0 and 7.1 have no
-- code of their own for a missing right.
local function error_text(problem)
  local text = type(problem) == 'table' and problem.err or tostring(problem)
  if not string.find(text, '^%u+ ') then text = 'ERR ' .. text end
  return (string.gsub(text, '^ERR (The user executing the script)', 'NOPERM %1'))
end

local function key(state, topic)
  return TAG .. state .. ':' .. topic
end

-- After jobs of a topic have gone: without any, its name goes too.
local function leave(topic)
  local sets = { key('delayed', topic), key('ready', topic), key('reserved', topic), key('dead', topic) }
  if redis.pcall('EXISTS', unpack(sets)) == 0 then redis.pcall('ZREM', TOPICS, topic) end
end

-- The due time of '+<delay in ms>' or '@<unix ms> <what the caller believes of the clock>', and the state that a job
-- with it is in; nil if it is more than ten years ahead. A given time is none of this clock: it has come when the time
-- that is believed has reached it.
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

-- A number of at most 14 digits: sums of such are exact, and no product is infinite.
local function number(text)
  return text and #text <= 14 and tonumber(text) or nil
end

-- The time that a set has for a job.
local function time_of(score)
  local at = tonumber(score)
  return at and at >= 0 and at < 1e14 and math.floor(at) or NOW
end

-- Changes with every digit of an attempt: see `check` in codec.rs.
local function check(attempt, high, middle, low, due, died, ttr)
  return (attempt * 3 + high * 5 + middle * 7 + low * 11 + due * 13 + died * 17 + ttr * 19) % 2147483647
end
