-- Reads jobs of one topic and state in the order of their times; writes nothing.
-- ARGV  2 topic, 3 state, 4 limit, 5 time and 6 id of the job to begin after ('' and '' from the beginning; a time
--       without an id begins with the first job of that time), 7 the time to end before ('' for none)
-- Reply 1 if there may be more, else 0; then for each job: id, record, attempt record (''), history (''),
--       state, due time or deadline

--- @include "shared/prelude"
--- @include "shared/jobs"

-- Whether one text follows another in the order of their bytes, as in sorted sets; Lua's own operator depends on the
-- locale of the server.
local function is_behind(one, other)
  for i = 1, math.min(#one, #other) do
    local byte, other_byte = string.byte(one, i), string.byte(other, i)
    if byte ~= other_byte then return byte > other_byte end
  end
  return #one > #other
end

-- The rank of the first member behind (time, id). Members of one time are in the order of their bytes, so this is a
-- binary search; the job `id` may have gone.
local function rank_behind(set, time, id)
  if time == '' then return 0 end
  local low = redis.call('ZCOUNT', set, '-inf', '(' .. time)
  local high = redis.call('ZCOUNT', set, '-inf', time)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_behind(redis.call('ZRANGE', set, middle, middle)[1], id) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

local function transition()
  local state, limit, bytes = ARGV[3], math.min(tonumber(ARGV[4]), 250), 0
  local set = key(state, ARGV[2])
  local first = rank_behind(set, ARGV[5], ARGV[6])
  local last = first + limit - 1
  if ARGV[7] ~= '' then last = math.min(last, redis.call('ZCOUNT', set, '-inf', '(' .. ARGV[7]) - 1) end
  local found = last < first and {} or redis.call('ZRANGE', set, first, last, 'WITHSCORES')
  local reply = { #found == 2 * limit and 1 or 0 }
  for n = 1, #found, 2 do
    if bytes > MAX_REPLY_BYTES then
      reply[1] = 1
      break
    end
    local id = found[n]
    local record = with_long_body(id, redis.call('HGET', POOL, id) or '')
    local attempt = redis.call('HGET', ATTEMPTS, id)
    local has_history = state == 'finished' or may_have_history(attempt)
    local history = has_history and history_text(id) or ''
    bytes = bytes + #record + #history
    reply[#reply + 1] = id
    reply[#reply + 1] = record
    reply[#reply + 1] = attempt or ''
    reply[#reply + 1] = history
    reply[#reply + 1] = STATE_CODE[state]
    reply[#reply + 1] = time_of(state, found[n + 1])
  end
  return reply
end

--- @include "shared/each_bucket"
