-- ready -> reserved, for up to `count` jobs of each want.
-- ARGV  2 nonce (13 hex digits), a blank, and what the caller believes of the clock (see believed()); then for each want:
--       topic, count, TTR in ms ('' for each job's own); the name of the consumer, if it has one, follows the TTR and a
--       blank
-- Reply now (rounded up), then for each want: how many jobs stay ready, {id, record, attempt, due, TTR, …}. A job that
--       has expired is not among them. If there are such jobs, {how many others stay ready, the time in microseconds that
--       ended them, and for each of them: id, its texts (loaded.lua)} replaces the first number.
--       e.g. {1763690060000, 0, {'7', '4 019aa424e480b532 …', 1, 1763690060000, 60000}}
-- The reservation of the n-th job of the reply is the nonce followed by 2047 + n in three hex digits; it ends at now +
-- TTR. The reply includes unreadable records: the store checks every record anyway and buries those jobs.

--- @include "shared/prelude"
--- @include "shared/tools"

-- The number of the first reservation of a call (Reservation::TAGGED), and the one after the last.
local FIRST_NUMBER, END_OF_NUMBERS = 2048, 4096
-- How many expired jobs a want passes over before it stops looking for others, and how many a call loads.
local MAX_EXPIRED, MAX_LOADED = 100, 250
-- The nonce, also as two numbers, and the number of the next reservation.
local nonce, high, middle, next_number
-- The bytes of bodies in the reply so far, in all buckets of the call.
local bytes = 0
-- Whether the ready set of the current want is empty now.
local is_drained
-- The expired jobs that the bucket's wants have passed over, by topic: their number, and by id whether it is among them. They
-- are the first ones of the ready set. Those of the current topic.
local all_passed, passed
-- Ids and texts in turn of the expired jobs that the current want has found, and how many the call may still load.
local expired
local loads_left = MAX_LOADED
-- The time with which the ends of jobs are compared, in milliseconds; nil until a job expires.
local time_of_expiry
-- Whether the pool, a long body of the current want, and a long body of any want are on another node.
local pool_is_elsewhere, body_is_elsewhere, any_body_is_elsewhere

--- @include "pop/read"
--- @include "pop/reserve"

-- Large bodies must not keep Redis busy: once the reply is long enough, the remaining wants get nothing. Their callers
-- see that jobs are left, and ask again.
local function pop(topic, count, ttr, consumer)
  local jobs, may_have_more = {}, true
  is_drained, body_is_elsewhere, expired = false, false, {}
  passed = all_passed[topic] or { count = 0 }
  all_passed[topic] = passed
  local passed_before = passed.count
  count = math.min(count, END_OF_NUMBERS - next_number)
  while may_have_more and count > 0 and bytes <= MAX_REPLY_BYTES and not (pool_is_elsewhere or body_is_elsewhere) do
    local size = math.min(count, 100)
    local before = passed.count
    may_have_more = reserve(topic, size, ttr, consumer, jobs)
    -- Other jobs replace the expired ones in the reply. If many have expired, later pops and the timer find the rest.
    count = count - size
    if passed.count - passed_before < MAX_EXPIRED then count = count + passed.count - before end
  end
  local left = is_drained and 0 or redis.call('ZCARD', key('ready', topic)) - passed.count
  if #expired == 0 then return left, jobs end
  return { left, time_of_expiry * 1000, unpack(expired) }, jobs
end

local function transition()
  all_passed = {}
  nonce, next_number, pool_is_elsewhere, any_body_is_elsewhere, is_drained =
    string.sub(ARGV[2], 1, 13), FIRST_NUMBER, false, false, false
  high, middle = tonumber(string.sub(nonce, 1, 7), 16), tonumber(string.sub(nonce, 8), 16)
  -- Nothing fails between two writes: the keys to write to are known to have the right type.
  redis.call('ZCARD', ENDS)
  for i = 3, #ARGV, 3 do
    if #ARGV > 5 then redis.call('ZCARD', key('ready', ARGV[i])) end
    redis.call('ZCARD', key('reserved', ARGV[i]))
  end

  local reply = { NOW_UP }
  for i = 3, #ARGV, 3 do
    local n, ttr, consumer = #reply, ARGV[i + 2], nil
    if string.find(ttr, ' ', 1, true) then ttr, consumer = string.match(ttr, '^(%d*) (.+)$') end
    reply[n + 1], reply[n + 2] = pop(ARGV[i], tonumber(ARGV[i + 1]), tonumber(ttr), consumer)
  end
  if (pool_is_elsewhere or any_body_is_elsewhere) and next_number == FIRST_NUMBER then
    return redis.error_reply('TRYAGAIN the pool of this bucket is not here')
  end
  return reply
end

--- @include "shared/each_bucket"
