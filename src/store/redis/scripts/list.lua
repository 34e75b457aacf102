-- Reads jobs of one topic and state in order; writes nothing.
-- ARGV  2 topic, 3 state, 4 limit, 5 time and 6 id to begin after ('' from the beginning; a time without an id is
--       the first to be told), 7 the first time not to be told any more ('' to the end)
-- Reply 1 if there may be more, else 0; then per job: id, record, attempt record (''), state, due time or deadline
local topic, state, limit, at, after = ARGV[2], ARGV[3], math.min(tonumber(ARGV[4]), 250), ARGV[5], ARGV[6]
local set, bytes = key(state, topic), 0

-- Whether one text stands behind another in the order of their bytes, as sorted sets have it; the
-- operator of the language would go by the locale of the server.
local function is_behind(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a > b end
  end
  return #one > #other
end

-- The rank of the first member behind (at, after). Members of one time are in the order of their
-- bytes, so it is found by halving; whether `after` itself is still there does not matter.
local function first_rank()
  if at == '' then return 0 end
  local low = redis.call('ZCOUNT', set, '-inf', '(' .. at)
  local high = redis.call('ZCOUNT', set, '-inf', at)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_behind(redis.call('ZRANGE', set, middle, middle)[1], after) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

local rank = first_rank()
local last = rank + limit - 1
if ARGV[7] ~= '' then last = math.min(last, redis.call('ZCOUNT', set, '-inf', '(' .. ARGV[7]) - 1) end
local found = last < rank and {} or redis.call('ZRANGE', set, rank, last, 'WITHSCORES')
local reply = { #found == 2 * limit and 1 or 0 }
for n = 1, #found, 2 do
  if bytes > ENOUGH then
    reply[1] = 1
    break
  end
  local id = found[n]
  local record = whole(id, redis.call('HGET', POOL, id) or '')
  bytes = bytes + #record
  reply[#reply + 1] = id
  reply[#reply + 1] = record
  reply[#reply + 1] = redis.call('HGET', ATTEMPTS, id) or ''
  reply[#reply + 1] = STATE_CODE[state]
  reply[#reply + 1] = time_of(found[n + 1])
end
return reply
